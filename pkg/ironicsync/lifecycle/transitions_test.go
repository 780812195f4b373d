package lifecycle

import (
	"encoding/json"
	"testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// A host that was moved here keeps what it runs, and is registered anew: what was
// registered elsewhere, with a Secret of other versions, says nothing here.
func TestBeginRestoresStatus(t *testing.T) {
	moved := newHost(provisionedHost...)
	status, err := json.Marshal(moved.Status)
	if err != nil {
		t.Fatal(err)
	}
	host := newHost(annotated(metal3.StatusAnnotation, string(status)))
	host.Finalizers, host.Status = nil, metal3.BareMetalHostStatus{}
	if err := StartManaging(host, metal3.StateRegistering); err != nil {
		t.Fatal(err)
	}
	if s := host.Status; s.Provisioning.State != metal3.StateProvisioned || s.Provisioning.Image.URL != "http://images/a" || s.Provisioning.ID == "" {
		t.Errorf("restored: %+v", s.Provisioning)
	}
	if hasAnnotation(host, metal3.StatusAnnotation) || !hasFinalizer(host) {
		t.Errorf("metadata: %+v", host.ObjectMeta)
	}
	if got := nextOf(planned(host, nodeIn("active"))); got.Do != Register {
		t.Errorf("next is %s, want Register", got)
	}
}

// An empty annotation is accepted, and has nothing to restore.
func TestBeginWithEmptyStatus(t *testing.T) {
	host := newHost(annotated(metal3.StatusAnnotation, ""))
	host.Finalizers, host.Status = nil, metal3.BareMetalHostStatus{}
	if err := StartManaging(host, metal3.StateRegistering); err != nil {
		t.Fatal(err)
	}
	if hasAnnotation(host, metal3.StatusAnnotation) || host.Status.Provisioning.State != metal3.StateRegistering {
		t.Errorf("%+v, %+v", host.ObjectMeta, host.Status.Provisioning)
	}
}
