package baremetalhost

import (
	"cmp"
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AttachmentUsers tells which interfaces of which recorded hosts, in any namespace,
// refer to a HostNetworkAttachment. It looks at all hosts as they are now, which with
// the watch cache are in memory: an attachment is hardly ever changed, and an index
// would be kept with each write of a host.
func (h *Hosts) AttachmentUsers(ctx context.Context, namespace, name string) ([]string, error) {
	hosts, err := h.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var users []string
	for i := range hosts.Items {
		host := &hosts.Items[i]
		for _, nic := range host.Spec.NetworkInterfaces {
			ref := nic.HostNetworkAttachment
			if ref != nil && ref.Name == name && cmp.Or(ref.Namespace, host.Namespace) == namespace {
				users = append(users, fmt.Sprintf("host %s/%s, interface %s", host.Namespace, host.Name, cmp.Or(nic.Name, nic.MACAddress)))
			}
		}
	}
	return users, nil
}
