// SPDX-License-Identifier: Apache-2.0

package ironic

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"

	api "github.com/metal3-io/metal3-apiserver/pkg/apis/ironic/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/kind"
)

// instanceColumns are those of `kubectl get ironics`. Columns with priority 1 appear with -o wide.
var instanceColumns = []metav1.TableColumnDefinition{
	{Name: "Name", Type: "string", Format: "name", Description: "Name of the IronicInstance."},
	{Name: "Reachable", Type: "string", Description: "Whether Ironic answers."},
	{Name: "API Version", Type: "string", Description: "Latest version of Ironic's API that both Ironic and the server have."},
	{Name: "Conductors", Type: "integer", Description: "Number of conductors that are alive."},
	{Name: "Nodes", Type: "integer", Description: "Number of nodes that Ironic has, those without a host included."},
	{Name: "Hosts", Type: "integer", Description: "Number of hosts whose nodes are in the Ironic."},
	{Name: "Observed", Type: "date", Description: "Time since all hosts of the Ironic were last observed."},
	{Name: "Age", Type: "date", Description: "Time since the IronicInstance was created."},
	{Name: "Endpoint", Type: "string", Priority: 1, Description: "URL of Ironic."},
	{Name: "Cloud", Type: "string", Priority: 1, Description: "Entry of clouds.yaml."},
	{Name: "Default", Type: "boolean", Priority: 1, Description: "Whether hosts that no IronicInstance selects are this Ironic's own."},
}

// ConvertToTable returns the instances as kubectl prints them.
func (*instances) ConvertToTable(_ context.Context, object, options runtime.Object) (*metav1.Table, error) {
	return kind.Table(object, options, instanceColumns, func(object runtime.Object) ([]any, error) {
		instance, ok := object.(*api.IronicInstance)
		if !ok {
			return nil, fmt.Errorf("not an IronicInstance: %T", object)
		}
		return instanceCells(instance), nil
	})
}

func instanceCells(instance *api.IronicInstance) []any {
	spec, status := &instance.Spec, &instance.Status
	var reachable, hosts any
	if c := meta.FindStatusCondition(status.Conditions, api.IronicInstanceReachable); c != nil { // not in a watch
		reachable, hosts = string(c.Status), int64(status.Hosts)
	}
	return []any{
		instance.Name, reachable, status.APIVersion, number(status.Conductors), number(status.Nodes), hosts,
		age(status.ObservedAt), age(&instance.CreationTimestamp), cmp.Or(status.Endpoint, spec.Endpoint), spec.Cloud, spec.Default,
	}
}

// number is the cell of a number that may not be known.
func number(n *int32) any {
	if n == nil {
		return nil
	}
	return int64(*n)
}

// age is the cell of the time since a moment that may not be known.
func age(t *metav1.Time) any {
	if t.IsZero() {
		return nil
	}
	return duration.HumanDuration(time.Since(t.Time))
}
