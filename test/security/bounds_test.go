// SPDX-License-Identifier: Apache-2.0

package security

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// TestSizes: objects are limited by their kinds, and the largest host that is accepted has room
// for its status.
func TestSizes(t *testing.T) {
	attack(t, "write all kinds in one namespace", "store objects that leave no room for a status")
	t.Parallel()
	ctx, ns := s.Begin(t)
	c := throughKube(t, user(t, "admin", "system:masters"))
	collection := groupVersion + "/namespaces/" + ns + "/"
	const kib = 1 << 10
	text := func(size int) string { return strings.Repeat("x", size) }
	// On a slow machine, a large request waits for those of other tests longer than it may last.
	patiently := func(method, path, contentType, body string) (got answer) {
		t.Helper()
		testbed.Eventually(t, ctx, func() string {
			if got = c.mustDo(t, ctx, method, path, contentType, body); got.code == http.StatusGatewayTimeout {
				return got.body
			}
			return ""
		})
		return got
	}
	for _, tt := range []struct {
		what, resource, kind, metadata, spec string
		refused                              string // what the 422 says; empty if the object is accepted
	}{
		{"a description", "baremetalhosts", "BareMetalHost", "", `"online":false,"description":"` + text(1400*kib) + `"`, "spec: Too long: may not take more than 65536 bytes in JSON, and takes 1433"},
		{"a list", "baremetalhosts", "BareMetalHost", "", `"online":false,"taints":[` + strings.TrimSuffix(strings.Repeat(`{"key":"k","effect":"NoSchedule"},`, 20000), ",") + `]`, "the largest field is taints"},
		{"escaped annotations", "baremetalhosts", "BareMetalHost", `,"annotations":{"a":"` + strings.Repeat("<", 200*kib) + `"}`, `"online":false`, "metadata: Too long: may not take more than 327680 bytes in JSON"},
		{"a schema", "firmwareschemas", "FirmwareSchema", "", `"hardwareVendor":"` + text(800*kib) + `","schema":{}`, "spec: Too long: may not take more than 786432 bytes"},
		{"a large schema", "firmwareschemas", "FirmwareSchema", "", `"hardwareVendor":"` + text(700*kib) + `","schema":{}`, ""},
		{"settings", "hostfirmwaresettings", "HostFirmwareSettings", "", `"settings":{"a":"` + text(300*kib) + `"}`, "spec: Too long: may not take more than 262144 bytes"},
		{"an inventory", "hardwaredata", "HardwareData", "", `"hardware":{"hostname":"` + text(500*kib) + `"}`, "the largest field is hardware"},
	} {
		object := fmt.Sprintf(`{"apiVersion":"metal3.io/v1alpha1","kind":%q,"metadata":{"name":"x"%s},"spec":{%s}}`, tt.kind, tt.metadata, tt.spec)
		got := patiently(http.MethodPost, collection+tt.resource, "application/json", object)
		isThere := got.code == http.StatusCreated || got.code == http.StatusConflict // by one that was not waited for
		if tt.refused == "" && !isThere || tt.refused != "" && (got.code != http.StatusUnprocessableEntity || !strings.Contains(got.body, tt.refused)) {
			t.Errorf("%s: %d %.500s, want %q", tt.what, got.code, got.body, tt.refused)
		}
		if len(got.body) > 4*kib && tt.refused != "" {
			t.Errorf("%s: an answer of %d bytes", tt.what, len(got.body))
		}
	}

	// As much as is accepted, everywhere.
	const password = "password"
	s.CreateSecret(t, ctx, ns, "bmc", map[string]string{"username": "admin", "password": password})
	createHost(t, ctx, ns, "large", simulator(t).NewBMC("admin", password), "bmc", func(spec *metal3.BareMetalHostSpec) { spec.Description = text(60 * kib) })
	labels := make([]string, 500)
	for i := range labels {
		labels[i] = fmt.Sprintf(`"example.com/%d":"%s"`, i, text(60))
	}
	grow := `{"metadata":{"annotations":{"example.com/notes":"` + text(255*kib) + `"},"labels":{` + strings.Join(labels, ",") + `}}}`
	if got := patiently(http.MethodPatch, collection+"baremetalhosts/large", "application/merge-patch+json", grow); got.code != http.StatusOK {
		t.Fatalf("%d %.500s", got.code, got.body)
	}
	waitHost(t, ctx, ns, "large", "available", isAvailable)
	deleteHost(t, ctx, ns, "large")
}

// TestDecodedBodies: what takes little in a request and much in memory is refused, and not many of these are decoded at a time.
func TestDecodedBodies(t *testing.T) {
	attack(t, "write all kinds in one namespace", "use up the memory with objects that are large when they are decoded")
	t.Parallel()
	ctx, ns := s.Begin(t)
	c := throughKube(t, user(t, "admin", "system:masters"))
	collection := groupVersion + "/namespaces/" + ns + "/"
	disks := func(name string, number int) string {
		return `{"metadata":{"name":"` + name + `"},"spec":{"hardware":{"storage":[{}` + strings.Repeat(",{}", number) + `]}}}`
	}
	post := func(body, query string) answer {
		return c.mustDo(t, ctx, http.MethodPost, collection+"hardwaredata"+query, "application/json", body)
	}
	if got := post(disks("many", 120_000), ""); got.code != http.StatusRequestEntityTooLarge || !strings.Contains(got.body, "of memory") {
		t.Errorf("an object with empty disks: %d %.500s", got.code, got.body)
	}
	if got := post(disks("many", 500), ""); got.code != http.StatusCreated {
		t.Errorf("500 disks: %d %.500s", got.code, got.body)
	}
	if got := post(disks("huge", 1_000_000), "?dryRun=All"); got.code != http.StatusRequestEntityTooLarge {
		t.Errorf("a body of 3 MB: %d %.500s", got.code, got.body)
	}
	var atOnce sync.WaitGroup
	large := disks("many", 400_000)
	for range 20 {
		atOnce.Go(func() {
			switch got := post(large, "?dryRun=All"); got.code {
			case http.StatusUnprocessableEntity, http.StatusTooManyRequests:
			case http.StatusGatewayTimeout: // on a slow machine, some wait for the others longer than a request may last
			default:
				t.Errorf("one of many bodies of 1.2 MB: %d %.500s", got.code, got.body)
			}
		})
	}
	atOnce.Wait()
	testbed.Eventually(t, ctx, func() string { // one alone is decoded
		if got := post(large, "?dryRun=All"); got.code != http.StatusUnprocessableEntity {
			return fmt.Sprintf("%d %.500s", got.code, got.body)
		}
		return ""
	})
}
