// SPDX-License-Identifier: Apache-2.0

package app

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/generated/clientset/versioned"
)

// TestFactsWhileIronicHangs: an explanation does not wait for an Ironic that hangs, nor asks it twice, and says what is missing.
func TestFactsWhileIronicHangs(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/baremetalhosts/") {
			asked.Add(1)
			<-r.Context().Done()
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"EventList","apiVersion":"v1","items":[]}`))
	}))
	defer server.Close()
	config := &rest.Config{Host: server.URL}
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	ours, err := versioned.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	c := &clients{metal3: ours, core: core}
	_, missing := c.factsOf(t.Context(), host("w-0", metal3.StateRegistering, withError("IPMI call failed")), 50*time.Millisecond)
	if len(missing) != 1 || missing[0] != "Ironic's history: it could not be asked for within 50ms" {
		t.Errorf("missing is %q", missing)
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("%d requests", n)
	}
}
