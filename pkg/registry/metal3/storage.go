// Package metal3 is the routing table of the group metal3.io: resource -> storage.
package metal3

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/baremetalhost"
)

// Stores read and write what is recorded in etcd, and know nothing of Ironic. What
// keeps hosts in step with Ironic works on them, so they are made before it.
type Stores struct {
	// Hosts is the store of BareMetalHosts.
	Hosts *genericregistry.Store
	// Kinds has the stores of all other kinds.
	Kinds Kinds
}

// NewStores makes the stores of all kinds.
func NewStores(scheme *runtime.Scheme, optsGetter generic.RESTOptionsGetter) (*Stores, error) {
	hosts, err := baremetalhost.NewStore(scheme, optsGetter)
	if err != nil {
		return nil, err
	}
	kinds, err := NewKinds(scheme, optsGetter)
	if err != nil {
		return nil, err
	}
	return &Stores{Hosts: hosts, Kinds: kinds}, nil
}

// Live has what Ironic says now recorded.
type Live interface {
	baremetalhost.Refresher
	baremetalhost.PasswordRedacter
}

// Nodes is what the actions ask of Ironic.
type Nodes interface {
	baremetalhost.NodeGetter
	baremetalhost.PowerSwitcher
	baremetalhost.ProvisionStateSetter
}

// Storage returns the storage of each resource and subresource of v1alpha1. Reads
// of hosts are refreshed by live, and actions act on nodes.
func (s *Stores) Storage(scheme *runtime.Scheme, live Live, nodes Nodes) map[string]rest.Storage {
	recorded := baremetalhost.NewHosts(s.Hosts)
	sources := baremetalhost.Sources{Hosts: recorded, Nodes: nodes, Refresher: live, Passwords: live}
	hostREST := baremetalhost.NewREST(s.Hosts, live)
	statusREST := baremetalhost.NewStatusREST(hostREST, scheme)
	storage := map[string]rest.Storage{
		"baremetalhosts":         hostREST,
		"baremetalhosts/status":  statusREST,
		"baremetalhosts/power":   baremetalhost.NewPowerREST(sources, recorded, nodes),
		"baremetalhosts/inspect": baremetalhost.NewInspectREST(sources, recorded, nodes),
		"baremetalhosts/retry":   baremetalhost.NewRetryREST(statusREST),
	}
	s.Kinds[hostNetworkAttachments].KeepWhileUsed(recorded.AttachmentUsers)
	for _, k := range s.Kinds {
		k.AddTo(storage)
	}
	return storage
}
