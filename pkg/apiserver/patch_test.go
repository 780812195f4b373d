// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"net/http"
	"strings"
	"testing"
)

// A strategic merge patch is refused with the words of kube-apiserver for custom resources, and other
// patches are not.
func TestStrategicMergePatch(t *testing.T) {
	s := startServer(t, true)
	s.create(t, "patched")
	const body = `{"spec":{"description":"patched"}}`
	for media, want := range map[string]int{
		"application/strategic-merge-patch+json":                http.StatusUnsupportedMediaType,
		"application/strategic-merge-patch+json; charset=utf-8": http.StatusUnsupportedMediaType,
		"application/merge-patch+json":                          http.StatusOK,
	} {
		for _, path := range []string{"/patched", "/patched/status"} {
			got := s.do(t, "PATCH", hostsPath+path, body, "Content-Type: "+media)
			if got.code != want {
				t.Errorf("%s of %s: HTTP %d: %s", media, path, got.code, got.body)
			}
			const says = "accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
			if want != http.StatusOK && !strings.HasSuffix(got.status(t).Message, says) {
				t.Errorf("%s of %s: %s", media, path, got.body)
			}
		}
	}
	apply := `{"apiVersion":"metal3.io/v1alpha1","kind":"BareMetalHost","metadata":{"name":"patched"},"spec":{"description":"applied"}}`
	if got := s.do(t, "PATCH", hostsPath+"/patched?fieldManager=test&force=true", apply, "Content-Type: application/apply-patch+yaml"); got.code != http.StatusOK {
		t.Errorf("server-side apply: HTTP %d: %s", got.code, got.body)
	}
}
