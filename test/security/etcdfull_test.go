// SPDX-License-Identifier: Apache-2.0

package security

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// TestFullEtcd: when somebody has filled the embedded etcd, reads go on, /readyz, the log and a
// metric name the reason, and it ends by itself as soon as there is space.
func TestFullEtcd(t *testing.T) {
	attack(t, "write in one namespace", "fill etcd")
	t.Parallel()
	ctx, ns := s.Begin(t)
	const quota = 32 << 20
	server, _ := s.NewServer(t, ctx, ns, testbed.ServerOptions{
		IronicEndpoint: s.ironic.server.URL,
		Args: append([]string{
			"--ironic-username-file=" + s.file("username"), "--ironic-password-file=" + s.file("password"),
			fmt.Sprint("--data-dir-quota-bytes=", quota),
		}, testbed.UnusedRamdiskArgs...),
	})
	t.Cleanup(func() {
		if _, err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := server.Start(ctx); err != nil {
		t.Fatal(err)
	}
	c := newClient(t, server.Direct.Config, user(t, "admin", "system:masters"))
	collection := groupVersion + "/namespaces/" + ns + "/"
	create := func(resource, kind, name, spec string) answer {
		return c.mustDo(t, ctx, http.MethodPost, collection+resource, "application/json",
			fmt.Sprintf(`{"apiVersion":"metal3.io/v1alpha1","kind":%q,"metadata":{"name":%q},"spec":%s}`, kind, name, spec))
	}
	if got := create("baremetalhosts", "BareMetalHost", "bystander", `{"online":false}`); got.code != http.StatusCreated {
		t.Fatal(got)
	}
	large := `{"hardwareVendor":"` + strings.Repeat("x", 760<<10) + `","schema":{}}`
	// The server checks the space every five seconds. It is full of objects, and not only of
	// history, when two checks have not made space. Until then, each check can make space for one more, which on a busy
	// machine takes several rounds of ten seconds.
	var refused time.Time
	fillers := 0
	testbed.Eventually(t, ctx, func() string {
		for fillers++; ; fillers++ {
			got := create("firmwareschemas", "FirmwareSchema", fmt.Sprint("filler-", fillers), large)
			if got.code == http.StatusCreated {
				refused = time.Time{}
				continue
			}
			if got.code != http.StatusInsufficientStorage || !strings.Contains(got.body, "administrator") {
				t.Fatalf("filler %d: %d %.300s", fillers, got.code, got.body)
			}
			break
		}
		if refused.IsZero() {
			refused = time.Now()
		}
		got := c.get(t, ctx, "/readyz")
		if time.Since(refused) < 11*time.Second || got.code == http.StatusOK || !strings.Contains(got.body, "[-]etcd-space failed") {
			return fmt.Sprintf("/readyz: %d %s", got.code, got.body)
		}
		return ""
	})
	for _, path := range []string{
		collection + "baremetalhosts/bystander", collection + "baremetalhosts", collection + "firmwareschemas?limit=1",
		"/readyz?exclude=etcd-space", "/livez", // the probes of the manifests
	} {
		if got := c.get(t, ctx, path); got.code != http.StatusOK {
			t.Errorf("%s: %d %.300s", path, got.code, got.body)
		}
	}
	if got := c.get(t, ctx, "/metrics"); !strings.Contains(got.body, "\nmetal3_etcd_full 1\n") {
		t.Errorf("the metric is not 1: %d\n%s", got.code, linesWith(got.body, "metal3_"))
	}
	if log, err := server.Logs(); err != nil || !strings.Contains(log, "--data-dir-quota-bytes") {
		t.Errorf("the log does not say what can be done: %v", err)
	}

	if got := c.mustDo(t, ctx, http.MethodDelete, collection+"firmwareschemas", "", ""); got.code != http.StatusOK {
		t.Fatalf("deleting: %d %.300s", got.code, got.body)
	}
	eventually(t, ctx, func() string {
		if got := c.get(t, ctx, "/readyz"); got.code != http.StatusOK {
			return got.body
		}
		return ""
	})
	if got := create("firmwareschemas", "FirmwareSchema", "after", large); got.code != http.StatusCreated {
		t.Errorf("in the end: %d %.300s", got.code, got.body)
	}
}

// linesWith returns the lines of a text that contain a word.
func linesWith(text, word string) string {
	var found []string
	for line := range strings.Lines(text) {
		if strings.Contains(line, word) {
			found = append(found, line)
		}
	}
	return strings.Join(found, "")
}
