// Package metal3 defines the storage of each resource of the group metal3.io.
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
	baremetalhost.PasswordRedacter
	baremetalhost.NodeProver
	baremetalhost.Destinations
	firmware.Refresher
}

// Requests records what users ask the leader to do.
type Requests interface {
	baremetalhost.NodeTaker
	baremetalhost.Rebuilder
	baremetalhost.Cleaner
	baremetalhost.Transferer
	baremetalhost.PowerCutter
}

// Storage returns the storage of each resource and subresource of v1alpha1. Reads of hosts and of their
// settings are brought up to date by live. Actions ask the Ironic of their host, which ironicOf returns, and
// those that the leader carries out later are recorded by requests. What actions write into hosts goes through
// admit, which can be nil. consoles opens consoles, for users that authorizer permits; it is also asked who may
// refer to which Secrets. events, which can be nil, tells who has requested what. cleanSteps are those that may
// be requested by name.
func (s *Stores) Storage(scheme *runtime.Scheme, live Live, requests Requests, ironicOf baremetalhost.IronicOf, admit admission.Interface, consoles baremetalhost.ConsoleOpener, authorizer authorizer.Authorizer, events baremetalhost.EventRecorder, cleanSteps validation.CleanSteps) map[string]rest.Storage {
	recorded := baremetalhost.NewHosts(s.Hosts)
	sources := baremetalhost.Sources{Hosts: recorded, Ironic: ironicOf, Prover: live, Refresher: live, Passwords: live, Events: events}
	hostREST := baremetalhost.NewREST(s.Hosts, live, ironicOf, live)
	statusREST := baremetalhost.NewStatusREST(hostREST, scheme)
	updates := baremetalhost.NewAdmission(admit, scheme)
	changers := baremetalhost.HostChangers{User: baremetalhost.NewUserHosts(s.Hosts, updates, ""), Own: recorded}
	bmcs := baremetalhost.NewBMCQueue()
	storage := map[string]rest.Storage{
		"baremetalhosts":        hostREST,
		"baremetalhosts/status": statusREST,
		"baremetalhosts/power": baremetalhost.NewPowerREST(sources, changers, Records[*metal3.DataImage](s.Kinds), Records[*metal3.HostUpdatePolicy](s.Kinds),
			baremetalhost.PowerCuts{Hosts: recorded, Cutter: requests, Recorder: recorded}),
		"baremetalhosts/inspect":     baremetalhost.NewInspectREST(sources, changers),
		"baremetalhosts/retry":       baremetalhost.NewRetryREST(baremetalhost.NewUserHosts(statusREST, updates, "status")),
		"baremetalhosts/takeover":    baremetalhost.NewTakeoverREST(sources, requests, recorded),
		"baremetalhosts/transfer":    baremetalhost.NewTransferREST(sources, requests, live, recorded),
		"baremetalhosts/console":     baremetalhost.NewConsoleREST(sources, consoles, authorizer),
		"baremetalhosts/validate":    baremetalhost.NewValidateREST(sources, bmcs),
		"baremetalhosts/history":     baremetalhost.NewHistoryREST(sources),
		"baremetalhosts/maintenance": baremetalhost.NewMaintenanceREST(sources),
		"baremetalhosts/bootdevice":  baremetalhost.NewBootDeviceREST(sources, bmcs),
		"baremetalhosts/nmi":         baremetalhost.NewNMIREST(sources, bmcs),
		"baremetalhosts/rebuild":     baremetalhost.NewRebuildREST(sources, requests, recorded),
		"baremetalhosts/clean":       baremetalhost.NewCleanREST(sources, requests, recorded, cleanSteps),
		"baremetalhosts/indicator":   baremetalhost.NewIndicatorREST(sources, bmcs),
	}
	s.Kinds[hostNetworkAttachments].KeepWhileUsed(recorded.AttachmentUsers)
	for _, k := range s.Kinds {
		k.AuthorizeSecrets(authorizer)
		k.AddTo(storage)
	}
	storage[hostFirmwareSettings] = firmware.NewSettingsREST(s.Kinds[hostFirmwareSettings], live)
	storage[hostFirmwareComponents] = firmware.NewComponentsREST(s.Kinds[hostFirmwareComponents], live)
	return storage
}
