// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// FreshNode returns a host and its node as Ironic has it now. If allowRecent is set, what was observed a
// moment ago, by the poll or after the previous step, serves as well.
func (o *observer) FreshNode(ctx context.Context, namespace, name string, allowRecent bool) (*metal3.BareMetalHost, *ironic.Node, error) {
	if allowRecent {
		host, node, err := o.JustObserved(ctx, namespace, name)
		if host != nil || err != nil {
			return host, node, err
		}
	}
	return o.observeAndGet(ctx, namespace, name, nil)
}
