// SPDX-License-Identifier: Apache-2.0

package security

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// TestUnrecordableHost: an object from before the limits has no room for its status. That is its
// own trouble: other tenants do not notice, and its owner can make it smaller.
func TestUnrecordableHost(t *testing.T) {
	attack(t, "write hosts", "stop others' statuses by a host without room for its own")
	t.Parallel()
	ctx, ns := s.Begin(t)
	other := makeNamespace(t, ctx, "other-")
	const password = "password"
	for _, n := range []string{ns, other} {
		s.CreateSecret(t, ctx, n, "bmc", map[string]string{"username": "admin", "password": password})
	}
	hosts := s.Hosts(ns)
	_, err := hosts.Create(ctx, &metal3.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{Name: "large", Annotations: map[string]string{metal3.PausedAnnotation: ""}},
		Spec: metal3.BareMetalHostSpec{
			Online: true, BMC: metal3.BMCDetails{Address: simulator(t).NewBMC("admin", password), CredentialsName: "bmc"},
			AutomatedCleaningMode: metal3.CleaningModeDisabled, BootMACAddress: "00:00:5e:00:53:f1",
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// As large as etcd accepts, but for 512 bytes.
	const maxRequest = 3 << 19 // 1.5 MiB
	rewriteInEtcd(t, ctx, ns, "large", func(host map[string]any) int {
		delete(host["metadata"].(map[string]any), "annotations")
		spec := host["spec"].(map[string]any)
		spec["description"] = ""
		encoded, err := json.Marshal(host)
		if err != nil {
			t.Fatal(err)
		}
		spec["description"] = strings.Repeat("x", maxRequest-512-len(encoded))
		return maxRequest - 512
	})
	c := throughKube(t, user(t, "admin", "system:masters"))
	path := groupVersion + "/namespaces/" + ns + "/baremetalhosts/large"
	eventually(t, ctx, func() string { // until the controller has tried
		log, err := s.Server.Logs()
		if err != nil || !strings.Contains(log, "request is too large") && !strings.Contains(log, "trying to send message larger") {
			return fmt.Sprintf("the log says nothing of a request that is too large: %v", err)
		}
		return ""
	})

	createHost(t, ctx, other, "x", simulator(t).NewBMC("admin", password), "bmc")
	began := time.Now()
	waitHost(t, ctx, other, "x", "available", isAvailable)
	t.Logf("the host of the other tenant was available after %s", time.Since(began))
	// Each of them still gets what is recorded.
	for _, path := range []string{path, groupVersion + "/namespaces/" + other + "/baremetalhosts"} {
		if got := c.get(t, ctx, path); got.code != http.StatusOK {
			t.Errorf("GET %s: %d %.300s", path, got.code, got.body)
		}
	}
	// Less, but still more than a new host may have; and then little.
	for _, description := range []string{strings.Repeat("y", 1<<20), "small"} {
		patch := `{"spec":{"description":"` + description + `"}}`
		if got := c.mustDo(t, ctx, http.MethodPatch, path, "application/merge-patch+json", patch); got.code != http.StatusOK {
			t.Errorf("%.40s: %d %.500s", patch, got.code, got.body)
		}
	}
	waitHost(t, ctx, ns, "large", "available", isAvailable)
	deleteHost(t, ctx, ns, "large")
}

// rewriteInEtcd changes a host behind the server's back. change returns the size that the host
// then has.
func rewriteInEtcd(t *testing.T, ctx context.Context, ns, name string, change func(map[string]any) int) {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"unix://" + s.Server.DataDir() + "/etcd.sock"}, DialTimeout: testbed.Patience})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	key := "/registry/metal3-apiserver/metal3.io/baremetalhosts/" + ns + "/" + name
	got, err := client.Get(ctx, key)
	if err != nil || len(got.Kvs) != 1 {
		t.Fatalf("%v, %v", got, err)
	}
	var host map[string]any
	if err := json.Unmarshal(got.Kvs[0].Value, &host); err != nil {
		t.Fatal(err)
	}
	size := change(host)
	encoded, err := json.Marshal(host)
	if err != nil || len(encoded) != size {
		t.Fatalf("%d bytes, want %d: %v", len(encoded), size, err)
	}
	if _, err := client.Put(ctx, key, string(encoded)); err != nil {
		t.Fatal(err)
	}
}
