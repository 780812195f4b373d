// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"crypto/tls"
	"net/http"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// TestEtcdCluster checks what the manifests rely on: that a member without a majority is alive but not ready, and who is
// let in.
func TestEtcdCluster(t *testing.T) {
	skipShort(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*Patience)
	defer cancel()
	c, err := NewEtcdCluster(t.TempDir(), 3)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	first, second, third := c.Members[0], c.Members[1], c.Members[2]
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	err = first.run.waitReady(ctx, func(ctx context.Context) error { return httpOK(ctx, nil, first.Probes+"/livez") })
	if err != nil {
		t.Fatalf("without a majority: %v", err)
	}
	if err := httpOK(ctx, nil, first.Probes+"/readyz"); err == nil {
		t.Error("a member is ready without a majority")
	}
	if err := second.Start(); err != nil {
		t.Fatal(err)
	}
	for _, member := range []*EtcdMember{first, second} {
		if err := member.WaitReady(ctx); err != nil {
			t.Fatal(err)
		}
	}

	// With a certificate of another name, such as that of a client, a member is not let in.
	for _, test := range []struct {
		name   string
		member bool
	}{{"metal3-apiserver", false}, {etcdPeerName, true}} {
		pair, err := c.ca.peer(test.name)
		if err != nil {
			t.Fatal(err)
		}
		if err := pair.write(c.path("peer")); err != nil {
			t.Fatal(err)
		}
		if err := third.Start(); err != nil {
			t.Fatal(err)
		}
		probe := "/livez"
		if test.member {
			probe = "/readyz"
		}
		if err := third.run.waitReady(ctx, func(ctx context.Context) error { return httpOK(ctx, nil, third.Probes+probe) }); err != nil {
			t.Fatalf("a member with the name %s: %v", test.name, err)
		}
		if err := httpOK(ctx, nil, third.Probes+"/readyz"); err == nil && !test.member {
			t.Errorf("with the name %s, a member was let in", test.name)
		}
		if err := third.Kill(); err != nil {
			t.Fatal(err)
		}
	}

	// Without a certificate, a client is not let in.
	stranger, err := clientv3.New(clientv3.Config{Endpoints: []string{first.Endpoint}, TLS: &tls.Config{InsecureSkipVerify: true}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stranger.Close() }()
	refused, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if got, err := stranger.Get(refused, "/secret"); err == nil {
		t.Errorf("without a certificate: %v", got)
	}
	if response, err := http.Get(first.Probes + "/v2/keys"); err == nil {
		_ = response.Body.Close()
		if response.StatusCode != http.StatusNotFound {
			t.Errorf("the port of the probes serves keys: %s", response.Status)
		}
	}
}
