// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"time"
)

// KubeNodeIronic and KubeNodeEtcd are where the pods of a node reach what KubeNode.StartSite starts.
const (
	KubeNodeIronic = "https://" + KubeNodeIP + ":6385"
	KubeNodeEtcd   = "https://" + KubeNodeIP + ":2379"
)

// Site is what a site has beside its cluster: an etcd and an Ironic, both with TLS.
type Site struct {
	etcd   *process
	ironic *http.Server
}

// StartSite starts an etcd, and has an Ironic served at an address of the node. It writes what authenticates the server to etcd
// into dir, as ca.crt, tls.crt and tls.key. ca.crt is also the authority of Ironic's certificate.
func (n *KubeNode) StartSite(ctx context.Context, dir, ironicURL string) (*Site, error) {
	target, err := url.Parse(ironicURL)
	if err != nil {
		return nil, err
	}
	ca, err := newAuthority("site-ca")
	if err != nil {
		return nil, err
	}
	client, err := ca.client("metal3-apiserver")
	if err != nil {
		return nil, err
	}
	serving, err := ca.server(KubeNodeIP)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(
		os.WriteFile(filepath.Join(dir, "ca.crt"), ca.pem, 0o644),
		client.write(filepath.Join(dir, "tls")),
		os.WriteFile(n.path("site-ca.crt"), ca.pem, 0o644),
		serving.write(n.path("site")),
	); err != nil {
		return nil, err
	}
	s := &Site{}
	if s.etcd, err = n.startSiteEtcd(); err != nil {
		return nil, err
	}
	listener, err := n.Listen(6385)
	if err != nil {
		return nil, errors.Join(err, s.etcd.kill())
	}
	certificate, err := tls.X509KeyPair(serving.cert, serving.key)
	if err != nil {
		return nil, errors.Join(err, listener.Close(), s.etcd.kill())
	}
	s.ironic = &http.Server{
		Handler: httputil.NewSingleHostReverseProxy(target), ReadHeaderTimeout: time.Minute,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}},
	}
	go func() { _ = s.ironic.ServeTLS(listener, "", "") }() // until Stop closes it
	return s, nil
}

func (n *KubeNode) startSiteEtcd() (*process, error) {
	const peer = "http://127.0.0.1:12380"
	return command{
		name: "the site's etcd", log: n.path("site-etcd.log"), path: filepath.Join(n.bin, "etcd"),
		args: []string{
			"--data-dir=" + n.path("site-etcd"), "--unsafe-no-fsync", "--log-level=warn",
			"--listen-client-urls=" + KubeNodeEtcd, "--advertise-client-urls=" + KubeNodeEtcd,
			"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=default=" + peer,
			"--client-cert-auth", "--trusted-ca-file=" + n.path("site-ca.crt"),
			"--cert-file=" + n.path("site.crt"), "--key-file=" + n.path("site.key"),
		},
	}.within(n.enter("--net")).start()
}

// Stop stops the etcd, and no longer serves Ironic.
func (s *Site) Stop() error { return errors.Join(s.ironic.Close(), s.etcd.stop()) }
