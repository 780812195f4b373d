// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// TestLaterVersionLeads: a later version of the server has recorded a host, as during an upgrade. This one gives up the
// Lease, leaves the host and its machine alone, and shows what is recorded with a warning.
func TestLaterVersionLeads(t *testing.T) {
	t.Parallel()
	needsSimulator(t)
	ctx, ns := s.Begin(t)
	ctx = onServerOfItsOwn(t, ctx, ns)
	b := startBMC(t, ctx)
	runningHost(t, ctx, ns, "worker-0", b)
	changeInEtcd(t, ctx, ns, "worker-0", func(host map[string]any) {
		record := host["status"].(map[string]any)["record"].(map[string]any)
		record["epoch"], record["future"] = metal3.RecordEpoch+1, map[string]any{"known": "later"}
	})
	stored := changeInEtcd(t, ctx, ns, "worker-0", nil)
	testbed.Eventually(t, ctx, func() string {
		log, err := os.ReadFile(bed(ctx).Server.LogPath)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(log), fmt.Sprintf(`should lead" host="%s/worker-0"`, ns)) || !strings.Contains(string(log), "This replica no longer leads") {
			return "it goes on leading"
		}
		return ""
	})
	const why = "a later version of metal3-apiserver has recorded this host"
	kubectl := func(args ...string) (stdout, stderr string, err error) {
		t.Helper()
		return bed(ctx).Server.Direct.Kubectl(ctx, `{"spec":{"action":"off"}}`, append([]string{"-n", ns}, args...)...)
	}
	for _, args := range [][]string{{"get", "bmh", "worker-0", "-o", "wide"}, {"get", "bmh", "-o", "wide"}} {
		if shown, warned, err := kubectl(args...); err != nil || !strings.Contains(shown, "externally provisioned") || !strings.Contains(warned, why) {
			t.Errorf("%v: %v\n%s\n%s", args, err, shown, warned)
		}
	}
	for _, args := range [][]string{
		{"label", "bmh", "worker-0", "changed=yes"}, {"delete", "bmh", "worker-0", "--wait=false"},
		{"create", "--raw", actionPath(ns, "worker-0", "power"), "-f", "-"},
	} {
		if _, refused, err := kubectl(args...); err == nil || !strings.Contains(refused, why) {
			t.Errorf("%v: %v\n%s", args, err, refused)
		}
	}
	if diff := cmp.Diff(stored, changeInEtcd(t, ctx, ns, "worker-0", nil)); diff != "" {
		t.Errorf("the host in etcd (-the later version's +now):\n%s", diff)
	}
	isOn(t, b, true)
}

// changeInEtcd changes a host behind the server's back, unless change is nil, and returns what is stored.
func changeInEtcd(t *testing.T, ctx context.Context, ns, name string, change func(host map[string]any)) map[string]any {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"unix://" + bed(ctx).Server.DataDir() + "/etcd.sock"}, DialTimeout: testbed.Patience})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	key := "/registry/metal3-apiserver/metal3.io/baremetalhosts/" + ns + "/" + name
	for {
		found, err := client.Get(ctx, key)
		if err != nil || len(found.Kvs) != 1 {
			t.Fatalf("%d hosts in etcd: %v", len(found.Kvs), err)
		}
		var host map[string]any
		if err := json.Unmarshal(found.Kvs[0].Value, &host); err != nil {
			t.Fatal(err)
		}
		if change == nil {
			return host
		}
		change(host)
		encoded, err := json.Marshal(host)
		if err != nil {
			t.Fatal(err)
		}
		done, err := client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", found.Kvs[0].ModRevision)).Then(clientv3.OpPut(key, string(encoded))).Commit()
		if err != nil {
			t.Fatal(err)
		}
		if done.Succeeded {
			return host
		}
	}
}
