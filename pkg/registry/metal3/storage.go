// Package metal3 is the routing table of the group metal3.io: resource -> storage.
package metal3

import (
	"k8s.io/apimachinery/pkg/runtime"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/baremetalhost"
)

// Storage returns the storage of each resource and subresource of v1alpha1. hosts
// is the undecorated store of hosts, live what refreshes it, nodes what the
// actions act on, kinds has all that is not a host.
func Storage(scheme *runtime.Scheme, hosts *genericregistry.Store, live baremetalhost.Refresher, nodes baremetalhost.Nodes, kinds Kinds) map[string]rest.Storage {
	hostREST := baremetalhost.NewREST(hosts, live)
	statusREST := baremetalhost.NewStatusREST(hostREST, scheme)
	storage := map[string]rest.Storage{
		"baremetalhosts":         hostREST,
		"baremetalhosts/status":  statusREST,
		"baremetalhosts/power":   baremetalhost.NewPowerREST(hostREST, nodes),
		"baremetalhosts/inspect": baremetalhost.NewInspectREST(hostREST, nodes),
		"baremetalhosts/retry":   baremetalhost.NewRetryREST(statusREST),
	}
	kinds[hostNetworkAttachments].KeepWhileUsed(baremetalhost.NewHosts(hosts).AttachmentUsers)
	for _, k := range kinds {
		k.AddTo(storage)
	}
	return storage
}
