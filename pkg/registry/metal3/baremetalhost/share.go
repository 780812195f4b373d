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

// The hardware details take two thirds of a host's memory and hardly ever change. But each version
// of a host that is decoded has a copy of them, and several versions are in memory at a time: the
// watch cache keeps those of the last minutes, and the controller has one, too. Therefore all
// versions of a host with equal hardware details share them, and hosts with the same processor
// share the list of its features. It follows that the hardware details of a host must never be
// changed in place. (An inspection replaces them as a whole.)

// ShareMemory wraps the codec for the storage of hosts, so that the hosts which it decodes share
// their hardware details with earlier versions of the same host, and with other hosts what they have
// in common with them.
func ShareMemory(codec apiruntime.Codec) apiruntime.Codec {
	return sharingCodec{Codec: codec, hardware: newHardwareTable(), pool: newInternPool()}
}

// sharingCodec has what the hosts that it has decoded share.
type sharingCodec struct {
	apiruntime.Codec
	hardware *hardwareTable
	pool     *internPool
}

// Decode decodes an object.
func (c sharingCodec) Decode(data []byte, defaults *schema.GroupVersionKind, into apiruntime.Object) (apiruntime.Object, *schema.GroupVersionKind, error) {
	if host, ok := into.(*metal3.BareMetalHost); ok {
		// JSON is decoded into what is there already.
		host.ManagedFields, host.Status.Conditions, host.Status.HardwareDetails = nil, nil, nil
	}
	obj, kind, err := c.Codec.Decode(data, defaults, into)
	if host, ok := obj.(*metal3.BareMetalHost); ok && err == nil {
		c.hardware.share(host)
		c.pool.share(host)
	}
	return obj, kind, err
}

// maxFlagLists bounds the lists of processor features that are kept, one for each model of
// processor in the fleet.
const maxFlagLists = 64

// hardwareTable finds the hardware details that a host has in memory already.
type hardwareTable struct {
	mu sync.Mutex
	// byHost has the hardware details last decoded for each host. Weak pointers do not keep
	// them in memory; forget removes the entry when they have been freed.
	byHost map[types.UID]weak.Pointer[metal3.HardwareDetails]
	flags  *lru.Cache // of []string, by the flags themselves
}

func newHardwareTable() *hardwareTable {
	return &hardwareTable{byHost: map[types.UID]weak.Pointer[metal3.HardwareDetails]{}, flags: lru.New(maxFlagLists)}
}

// share replaces the hardware details of a host by those of an earlier version, if they are equal.
// Nobody else may be using the host yet.
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
	// Decoding leaves slices with unused capacity; clones have less.
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

// forget removes the entry of a host whose hardware details have been freed.
func (t *hardwareTable) forget(host types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byHost[host].Value() == nil {
		delete(t.byHost, host)
	}
}
