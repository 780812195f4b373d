// SPDX-License-Identifier: Apache-2.0

package security

import (
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// TestRealWrites does in earnest what TestMatrix only tries: each right is good for
// its own half of a host.
func TestRealWrites(t *testing.T) {
	attack(t, "each role of the manifests", "write the half of a host that is not theirs")
	t.Parallel()
	ctx, ns := s.Begin(t)
	users := usersOfHost(t, ctx, ns)
	before := waitHost(t, ctx, ns, "x", "available and on", func(h *metal3.BareMetalHost) bool { return isAvailable(h) && h.Status.PoweredOn })
	host := groupVersion + "/namespaces/" + ns + "/baremetalhosts/x"
	const merge, asJSON = "application/merge-patch+json", "application/json"
	get := func() *metal3.BareMetalHost {
		host, err := s.Hosts(ns).Get(ctx, "x", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return host
	}

	both := `{"spec":{"description":"changed"},"status":{"errorMessage":"forged","hardwareProfile":"forged"}}`
	if got := users["keeper"].mustDo(t, ctx, http.MethodPatch, host, merge, both); got.code != http.StatusOK {
		t.Errorf("keeper: %d %s", got.code, got.body)
	}
	if h := get(); h.Spec.Description != "changed" || h.Status.HardwareProfile != before.Status.HardwareProfile {
		t.Errorf("after the keeper's patch: %q, profile %q", h.Spec.Description, h.Status.HardwareProfile)
	}
	both = `{"metadata":{"finalizers":[],"labels":{"forged":"yes"}},"spec":{"description":"forged","online":false},"status":{"hardwareProfile":"reported"}}`
	if got := users["reporter"].mustDo(t, ctx, http.MethodPatch, host+"/status", merge, both); got.code != http.StatusOK {
		t.Errorf("reporter: %d %s", got.code, got.body)
	}
	if h := get(); h.Spec.Description != "changed" || !h.Spec.Online || len(h.Finalizers) == 0 || h.Labels["forged"] != "" {
		t.Errorf("the reporter has changed more than the status: %+v, finalizers %v", h.Spec, h.Finalizers)
	}
	// The right to switch includes no other, but switching writes spec.online.
	off := `{"apiVersion":"metal3.io/v1alpha1","kind":"HostPower","spec":{"action":"off","mode":"hard"}}`
	eventually(t, ctx, func() string { // it may be locked for a moment
		if got := users["switcher"].mustDo(t, ctx, http.MethodPost, host+"/power", asJSON, off); got.code != http.StatusCreated {
			return got.body
		}
		return ""
	})
	if h := get(); h.Spec.Online {
		t.Error("switched off, and spec.online is true")
	}
	for name, c := range users {
		if name == "editor" || name == "owner" || name == "keeper" || name == "master" {
			continue
		}
		body := `{"apiVersion":"metal3.io/v1alpha1","kind":"BareMetalHost","metadata":{"name":"y"},"spec":{"online":false}}`
		collection := strings.TrimSuffix(host, "/x")
		for _, got := range []answer{
			c.mustDo(t, ctx, http.MethodPost, collection, asJSON, body),
			c.mustDo(t, ctx, http.MethodPatch, host, merge, `{"spec":{"description":"forged"}}`),
			c.mustDo(t, ctx, http.MethodDelete, host, "", ""),
			c.mustDo(t, ctx, http.MethodDelete, collection, "", ""),
		} {
			if got.code != http.StatusForbidden {
				t.Errorf("%s: %d %s", name, got.code, got.body)
			}
		}
	}
	if h := get(); h.Spec.Description != "changed" || h.DeletionTimestamp != nil {
		t.Errorf("in the end: %+v", h)
	}
	if got := users["editor"].mustDo(t, ctx, http.MethodDelete, host, "", ""); got.code != http.StatusOK {
		t.Errorf("editor: %d %s", got.code, got.body)
	}
}
