// SPDX-License-Identifier: Apache-2.0

package metal3

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/validation"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/baremetalhost"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/firmware"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/kind"
	"github.com/metal3-io/metal3-apiserver/pkg/store"
)

// Stores has the stores that read and write objects in etcd, independently of Ironic. They are created
// before the components that synchronise hosts with Ironic, because those use them.
type Stores struct {
	// Hosts is the store of BareMetalHosts.
	Hosts *genericregistry.Store
	// Kinds has the stores of all other kinds.
	Kinds Kinds
}

// NewStores creates the stores of all kinds. Hosts can be created only in the given namespaces;
// none means in all namespaces.
func NewStores(scheme *runtime.Scheme, optsGetter generic.RESTOptionsGetter, namespaces []string) (*Stores, error) {
	hosts, err := baremetalhost.NewStore(scheme, optsGetter, namespaces)
	if err != nil {
		return nil, err
	}
	kinds, err := NewKinds(scheme, optsGetter)
	if err != nil {
		return nil, err
	}
	return &Stores{Hosts: hosts, Kinds: kinds}, nil
}

// Live brings the recorded status of hosts up to date with Ironic, and knows which Ironics there are.
type Live interface {
	baremetalhost.Refresher
	baremetalhost.Nodes
	baremetalhost.Destinations
	firmware.Refresher
}

// Deps is what the storage of the resources needs besides the stores.
type Deps struct {
	// Live brings up to date what is read.
	Live Live
	// IronicOf returns the Ironic of a host, for actions.
	IronicOf baremetalhost.IronicOf
	// Admission is what changes go through that actions make to hosts; may be nil.
	Admission admission.Interface
	// Consoles opens consoles.
	Consoles baremetalhost.ConsoleOpener
	// Authorizer permits consoles, and knows who may refer to which Secrets, and who may be the Bare Metal Operator.
	Authorizer authorizer.Authorizer
	// Events has events written about who has requested what.
	Events baremetalhost.EventRecorder
	// CleanSteps are those that may be requested by name.
	CleanSteps validation.CleanSteps
}

// Storage returns the storage of each resource and subresource of v1alpha1.
func (s *Stores) Storage(scheme *runtime.Scheme, deps Deps) map[string]rest.Storage {
	recorded := store.NewHosts(s.Hosts)
	sources := baremetalhost.Sources{Hosts: recorded, Ironic: deps.IronicOf, Nodes: deps.Live, Events: deps.Events}
	hostREST := baremetalhost.NewREST(s.Hosts, deps.Live, deps.IronicOf, deps.Live)
	statusREST := baremetalhost.NewStatusREST(hostREST, scheme, deps.Authorizer)
	updates := baremetalhost.NewAdmission(deps.Admission, scheme)
	changers := baremetalhost.HostChangers{User: baremetalhost.NewUserHosts(s.Hosts, updates, ""), Own: recorded}
	bmcs := baremetalhost.NewBMCQueue()
	storage := map[string]rest.Storage{
		"baremetalhosts":        hostREST,
		"baremetalhosts/status": statusREST,
		"baremetalhosts/power": baremetalhost.NewPowerREST(sources, changers, Objects[*metal3.DataImage](s.Kinds), Objects[*metal3.HostUpdatePolicy](s.Kinds),
			baremetalhost.PowerCuts{Hosts: recorded, Recorder: recorded}),
		"baremetalhosts/inspect":     baremetalhost.NewInspectREST(sources, changers),
		"baremetalhosts/retry":       baremetalhost.NewRetryREST(sources, baremetalhost.NewUserHosts(statusREST, updates, "status")),
		"baremetalhosts/takeover":    baremetalhost.NewTakeoverREST(sources, recorded),
		"baremetalhosts/transfer":    baremetalhost.NewTransferREST(sources, deps.Live, recorded),
		"baremetalhosts/console":     baremetalhost.NewConsoleREST(sources, deps.Consoles, deps.Authorizer),
		"baremetalhosts/validate":    baremetalhost.NewValidateREST(sources, bmcs),
		"baremetalhosts/history":     baremetalhost.NewHistoryREST(sources),
		"baremetalhosts/maintenance": baremetalhost.NewMaintenanceREST(sources),
		"baremetalhosts/bootdevice":  baremetalhost.NewBootDeviceREST(sources, bmcs),
		"baremetalhosts/nmi":         baremetalhost.NewNMIREST(sources, bmcs),
		"baremetalhosts/rebuild":     baremetalhost.NewRebuildREST(sources, recorded),
		"baremetalhosts/clean":       baremetalhost.NewCleanREST(sources, recorded, deps.CleanSteps),
		"baremetalhosts/indicator":   baremetalhost.NewIndicatorREST(sources, bmcs),
	}
	s.Kinds[hostNetworkAttachments].KeepWhileUsed(recorded.AttachmentUsers)
	for _, k := range s.Kinds {
		k.AuthorizeSecrets(deps.Authorizer)
		k.AddTo(storage)
	}
	for resource, live := range map[string]*firmware.REST{
		hostFirmwareSettings:   firmware.NewSettingsREST(s.Kinds[hostFirmwareSettings], deps.Live),
		hostFirmwareComponents: firmware.NewComponentsREST(s.Kinds[hostFirmwareComponents], deps.Live),
	} {
		storage[resource], storage[resource+"/status"] = live, kind.NewStatusREST(live.REST, live)
	}
	return storage
}
