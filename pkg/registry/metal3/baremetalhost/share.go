package baremetalhost

import (
	"runtime"
	"slices"
	"strings"
	"sync"
	"weak"

	"k8s.io/apimachinery/pkg/api/equality"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// The hardware details are two thirds of a host in memory, and hardly ever change. Yet each
// version of a host that is decoded has its own, and several versions are in memory at a time:
// the watch cache keeps those of the last minutes, and the controller has a copy. So all versions
// of a host with the same hardware details share them, and hosts with the same processor share
// the list of its features. It follows that nobody may change the hardware details of a host in
// place, which nobody does: an inspection replaces all of them.

// ShareHardware returns a codec for the storage of hosts that decodes as codec does, and makes
// hosts share their hardware details with what has been decoded before.
func ShareHardware(codec apiruntime.Codec) apiruntime.Codec { return sharingCodec{codec} }

type sharingCodec struct{ apiruntime.Codec }

// Decode decodes an object.
func (c sharingCodec) Decode(data []byte, defaults *schema.GroupVersionKind, into apiruntime.Object) (apiruntime.Object, *schema.GroupVersionKind, error) {
	if host, ok := into.(*metal3.BareMetalHost); ok {
		host.Status.HardwareDetails = nil // JSON is decoded into what is there already
	}
	obj, kind, err := c.Codec.Decode(data, defaults, into)
	if host, ok := obj.(*metal3.BareMetalHost); ok && err == nil {
		sharedHardware.share(host)
	}
	return obj, kind, err
}

// maxFlagLists bounds the lists of processor features that are kept, one for each model of
// processor in the fleet.
const maxFlagLists = 64

var sharedHardware = newHardwareTable()

// hardwareTable finds the hardware details that a host has in memory already.
type hardwareTable struct {
	mu sync.Mutex
	// byHost does not keep them in memory, and forgets those that have gone.
	byHost map[types.UID]weak.Pointer[metal3.HardwareDetails]
	flags  *lru.Cache // of []string, by the flags themselves
}

func newHardwareTable() *hardwareTable {
	return &hardwareTable{byHost: map[types.UID]weak.Pointer[metal3.HardwareDetails]{}, flags: lru.New(maxFlagLists)}
}

// share lets a host have the hardware details of an earlier version of it, if they are equal.
// The host must not be in use elsewhere yet.
func (t *hardwareTable) share(host *metal3.BareMetalHost) {
	details := host.Status.HardwareDetails
	if details == nil {
		return
	}
	t.mu.Lock()
	known := t.byHost[host.UID].Value()
	t.mu.Unlock()
	switch {
	case known == details:
		return
	case known != nil && equality.Semantic.DeepEqual(known, details):
		host.Status.HardwareDetails = known
		return
	}
	// Decoding leaves slices with room for more.
	details.NIC, details.Storage = slices.Clone(details.NIC), slices.Clone(details.Storage)
	details.CPU.Flags = t.sharedFlags(details.CPU.Flags)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byHost[host.UID] = weak.Make(details)
	runtime.AddCleanup(details, t.forget, host.UID)
}

func (t *hardwareTable) sharedFlags(flags []string) []string {
	if len(flags) == 0 {
		return flags
	}
	key := strings.Join(flags, " ")
	if known, ok := t.flags.Get(key); ok && slices.Equal(known.([]string), flags) {
		return known.([]string)
	}
	flags = slices.Clone(flags)
	t.flags.Add(key, flags)
	return flags
}

// forget drops the entry of a host whose hardware details are in memory no more.
func (t *hardwareTable) forget(host types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byHost[host].Value() == nil {
		delete(t.byHost, host)
	}
}
