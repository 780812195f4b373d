// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// EtcdCluster is an etcd of several members, each a process of metal3-apiserver, with TLS between all of them
// as in the manifests of artifacts/apiservice/overlays/high-availability.
type EtcdCluster struct {
	// Members are its members.
	Members []*EtcdMember

	dir string
	ca  *authority
}

// EtcdMember is a member of an EtcdCluster. It keeps its ports and data when it is started again.
type EtcdMember struct {
	// Endpoint is the URL for clients, and Probes that of its probes and metrics.
	Endpoint, Probes string

	cluster *EtcdCluster
	program string
	name    string
	peer    string // URL
	run     *process
	// joins is set if it joins a cluster that exists, if it has no data.
	joins bool
}

// NewEtcdCluster prepares members with their data in dir, which must exist. They are not started.
func NewEtcdCluster(dir string, members int) (*EtcdCluster, error) {
	program, err := serverProgram()
	if err != nil {
		return nil, err
	}
	c := &EtcdCluster{dir: dir}
	if c.ca, err = newAuthority("metal3-etcd-ca"); err != nil {
		return nil, err
	}
	for name, pair := range map[string]func() (keyPair, error){
		"client": func() (keyPair, error) { return c.ca.client("metal3-apiserver") },
		"server": func() (keyPair, error) { return c.ca.server("metal3-etcd") },
		"peer":   func() (keyPair, error) { return c.ca.peer(etcdPeerName) },
	} {
		issued, err := pair()
		if err != nil {
			return nil, err
		}
		if err := issued.write(c.path(name)); err != nil {
			return nil, err
		}
	}
	if err := os.WriteFile(c.path("ca.crt"), c.ca.pem, 0o644); err != nil {
		return nil, err
	}
	for i := range members {
		var urls [3]string
		for j, scheme := range []string{"https", "https", "http"} {
			port, err := freePort()
			if err != nil {
				return nil, err
			}
			urls[j] = scheme + "://127.0.0.1:" + strconv.Itoa(port)
		}
		c.Members = append(c.Members, &EtcdMember{
			Endpoint: urls[0], Probes: urls[2], peer: urls[1],
			cluster: c, program: program, name: fmt.Sprintf("metal3-etcd-%d", i),
		})
	}
	return c, nil
}

// etcdPeerName is the common name without which nobody is taken for a member.
const etcdPeerName = "metal3-etcd-peer"

func (c *EtcdCluster) path(name string) string { return filepath.Join(c.dir, name) }

// Endpoints returns the value of --etcd-servers.
func (c *EtcdCluster) Endpoints() string {
	var urls []string
	for _, member := range c.Members {
		urls = append(urls, member.Endpoint)
	}
	return strings.Join(urls, ",")
}

// ClientArgs returns the flags with which metal3-apiserver authenticates to the members.
func (c *EtcdCluster) ClientArgs() []string {
	return []string{"--etcd-cafile=" + c.path("ca.crt"), "--etcd-certfile=" + c.path("client.crt"), "--etcd-keyfile=" + c.path("client.key")}
}

// Start starts all members, and waits until they are ready.
func (c *EtcdCluster) Start(ctx context.Context) error {
	for _, member := range c.Members {
		if err := member.Start(); err != nil {
			return err
		}
	}
	for _, member := range c.Members {
		if err := member.WaitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Stop stops all members.
func (c *EtcdCluster) Stop() error {
	var errs []error
	for _, member := range c.Members {
		errs = append(errs, member.run.stop())
	}
	return errors.Join(errs...)
}

// Leader returns the member that leads.
func (c *EtcdCluster) Leader(ctx context.Context) (*EtcdMember, error) {
	var errs []error
	for _, member := range c.Members {
		leads, err := member.leads(ctx)
		if leads {
			return member, nil
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("no member of etcd leads: %w", errors.Join(errs...))
}

// Client returns a client of all members.
func (c *EtcdCluster) Client() (*clientv3.Client, error) {
	return c.client(strings.Split(c.Endpoints(), ","))
}

func (c *EtcdCluster) client(endpoints []string) (*clientv3.Client, error) {
	tls, err := transport.TLSInfo{CertFile: c.path("client.crt"), KeyFile: c.path("client.key"), TrustedCAFile: c.path("ca.crt")}.ClientConfig()
	if err != nil {
		return nil, err
	}
	return clientv3.New(clientv3.Config{Endpoints: endpoints, TLS: tls, Logger: zap.NewNop()})
}

// Env returns the environment of the member's container in the manifests, from which the commands for
// snapshots take their settings, too.
func (m *EtcdMember) Env() []string {
	var all []string
	for _, member := range m.cluster.Members {
		all = append(all, member.name+"="+member.peer)
	}
	state := "new"
	if m.joins {
		state = "existing"
	}
	return []string{
		"ETCD_INITIAL_CLUSTER_STATE=" + state,
		"ETCD_NAME=" + m.name, "ETCD_DATA_DIR=" + m.DataDir(), "ETCD_INITIAL_CLUSTER=" + strings.Join(all, ","),
		"ETCD_INITIAL_CLUSTER_TOKEN=metal3-etcd", "ETCD_INITIAL_ADVERTISE_PEER_URLS=" + m.peer,
	}
}

// DataDir returns the directory of the member's data.
func (m *EtcdMember) DataDir() string { return m.cluster.path(m.name) }

// Start starts the member. It is ready only when a majority of the members runs.
func (m *EtcdMember) Start() (err error) {
	c := m.cluster
	m.run, err = command{
		name: m.name, log: c.path(m.name + ".log"), path: m.program, env: m.Env(),
		args: []string{
			"etcd", "--log-level=warn",
			"--listen-client-urls=" + m.Endpoint, "--advertise-client-urls=" + m.Endpoint,
			"--listen-peer-urls=" + m.peer, "--listen-metrics-urls=" + m.Probes,
			"--client-cert-auth", "--trusted-ca-file=" + c.path("ca.crt"), "--cert-file=" + c.path("server.crt"), "--key-file=" + c.path("server.key"),
			"--peer-client-cert-auth", "--peer-trusted-ca-file=" + c.path("ca.crt"), "--peer-cert-file=" + c.path("peer.crt"), "--peer-key-file=" + c.path("peer.key"),
			"--peer-cert-allowed-cn=" + etcdPeerName, "--peer-skip-client-san-verification",
			"--enable-grpc-gateway=false",
		},
	}.start()
	return err
}

// WaitReady waits until the member is ready, as the probe of the manifests understands it.
func (m *EtcdMember) WaitReady(ctx context.Context) error {
	return m.run.waitReady(ctx, func(ctx context.Context) error { return httpOK(ctx, nil, m.Probes+"/readyz") })
}

// Kill kills the member.
func (m *EtcdMember) Kill() error { return m.run.kill() }

// LoseData kills the member and deletes its data. When it is started again, it joins the other members.
func (m *EtcdMember) LoseData() error {
	m.joins = true
	return errors.Join(m.Kill(), os.RemoveAll(m.DataDir()))
}

// Name returns its name in the cluster.
func (m *EtcdMember) Name() string { return m.name }

// Suspend stops the member's process without ending it, until Resume.
func (m *EtcdMember) Suspend() error { return m.run.signal(syscall.SIGSTOP) }

// Resume lets the member's process go on after Suspend.
func (m *EtcdMember) Resume() error { return m.run.signal(syscall.SIGCONT) }

func (m *EtcdMember) leads(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	client, err := m.cluster.client([]string{m.Endpoint})
	if err != nil {
		return false, err
	}
	defer func() { _ = client.Close() }()
	status, err := client.Status(ctx, m.Endpoint)
	if err != nil {
		return false, err
	}
	return status.Leader == status.Header.MemberId, nil
}
