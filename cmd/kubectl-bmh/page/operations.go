// SPDX-License-Identifier: Apache-2.0

package page

import (
	"slices"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// Operation is what took some time. A host keeps the last one of each kind (status.operationHistory).
type Operation struct {
	Name  string    `json:"name"`
	Start time.Time `json:"start"`
	// End is absent while the operation goes on.
	End *time.Time `json:"end,omitempty"`
}

// operationsOf returns the operations that a host remembers, the earliest first.
func operationsOf(host *metal3.BareMetalHost) []Operation {
	history := &host.Status.OperationHistory
	operations := []Operation{}
	for _, o := range []struct {
		name   string
		metric metal3.OperationMetric
	}{
		{"Registration", history.Register}, {"Inspection", history.Inspect}, {"Provisioning", history.Provision}, {"Deprovisioning", history.Deprovision},
	} {
		if o.metric.Start.IsZero() {
			continue
		}
		operation := Operation{Name: o.name, Start: o.metric.Start.Time}
		if !o.metric.End.IsZero() {
			operation.End = &o.metric.End.Time
		}
		operations = append(operations, operation)
	}
	slices.SortStableFunc(operations, func(a, b Operation) int { return a.Start.Compare(b.Start) })
	return operations
}
