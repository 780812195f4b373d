// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"context"
	"fmt"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// AttachmentUsers returns the network interfaces of recorded hosts in a namespace that refer to a
// HostNetworkAttachment in that namespace, each as a text for users. Hosts in other namespaces can
// refer to it, too, but do not count: otherwise, anybody who can write hosts in any namespace could
// prevent its owner from changing or deleting it, and their hosts would be disclosed to that owner.
// There is no index, because the watch cache has all hosts in memory.
func (h *Hosts) AttachmentUsers(ctx context.Context, namespace, name string) ([]string, error) {
	list, err := ListLatest(inNamespace(ctx, namespace), h.store, &metainternalversion.ListOptions{})
	if err != nil {
		return nil, err
	}
	hosts := list.(*metal3.BareMetalHostList)
	var users []string
	for i := range hosts.Items {
		host := &hosts.Items[i]
		for _, nic := range host.Spec.NetworkInterfaces {
			ref := nic.HostNetworkAttachment
			if ref != nil && ref.Name == name && cmp.Or(ref.Namespace, namespace) == namespace {
				users = append(users, fmt.Sprintf("host %s, interface %s", host.Name, cmp.Or(nic.Name, nic.MACAddress)))
			}
		}
	}
	return users, nil
}
