// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// A detached host is frozen, but for a word of an outage that is over.
func TestObserveDetached(t *testing.T) {
	host := newHost(and(provisionedHost, operational(metal3.OperationalStatusDetached), withError("", "", 0))...)
	host.Status.OperationalStatus = metal3.OperationalStatusDetached
	host.Status.Record.Observed = true
	Render(host, created.Time)
	if status, changed := Observe(host, Observation{}, now); changed {
		t.Errorf("a detached host is changed: %+v", status)
	}
	host.Status.Record.Silence = &metal3.Silence{Since: created, Reason: "connection refused"}
	Render(host, created.Time)
	status, changed := Observe(host, Observation{}, now)
	c := findCondition(&status, metal3.IronicReachableCondition)
	if !changed || c == nil || c.Status != metav1.ConditionTrue {
		t.Errorf("Ironic answers, and the condition is %+v", c)
	}
	if status.OperationalStatus != metal3.OperationalStatusDetached || status.Provisioning != host.Status.Provisioning || len(status.Conditions) != len(host.Status.Conditions) {
		t.Errorf("more than that is changed: %+v", status)
	}
}
