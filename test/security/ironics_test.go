// SPDX-License-Identifier: Apache-2.0

package security

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// TestSecretsOfIronicInstances: the credentials of an IronicInstance reach its Ironic, and nobody else. (searchFiles looks for
// them when all tests have ended.)
func TestSecretsOfIronicInstances(t *testing.T) {
	ctx, _ := s.Begin(t)
	password := newCanary("the password for the Ironic of an IronicInstance")
	asked := make(chan struct{}, 1)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, given, _ := r.BasicAuth(); user == "metal3" && given == password.text {
			select {
			case asked <- struct{}{}:
			default:
			}
		}
		http.Error(w, "This Ironic is being set up", http.StatusServiceUnavailable)
	}))
	t.Cleanup(other.Close)
	s.CreateSecret(t, ctx, testbed.Namespace, "canary", map[string]string{"username": "metal3", "password": password.text})
	instance := fmt.Sprintf(`{"apiVersion":"ironic.metal3-apiserver.io/v1alpha1","kind":"IronicInstance","metadata":{"name":"canary"},
		"spec":{"endpoint":%q,"credentialsName":"canary","namespaceSelector":{"matchLabels":{"room":"canary"}}}}`, other.URL)
	if _, errOut, err := s.Kube.Kubectl(ctx, instance, "create", "-f", "-"); err != nil {
		t.Fatalf("creating an IronicInstance: %v: %s", err, errOut)
	}
	testbed.Eventually(t, ctx, func() string {
		// Each read of an IronicInstance asks its Ironic.
		if _, errOut, err := s.Kube.Kubectl(ctx, "", "get", "ironicinstance", "canary"); err != nil {
			return fmt.Sprintf("reading the IronicInstance: %v: %s", err, errOut)
		}
		select {
		case <-asked:
			return ""
		default:
			return "the Ironic has not been asked with the credentials of its IronicInstance"
		}
	})
	if _, errOut, err := s.Kube.Kubectl(ctx, "", "delete", "ironicinstance", "canary"); err != nil {
		t.Errorf("deleting the IronicInstance: %v: %s", err, errOut)
	}
}
