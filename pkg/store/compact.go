// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"weak"

	"k8s.io/apimachinery/pkg/api/equality"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/lru"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// The hardware details take two thirds of a host's memory and hardly ever change. But each version
// of a host that is decoded has a copy of them, and several versions are in memory at a time: the
// watch cache keeps those of the last minutes, and the controller has one, too. Therefore all
// versions of a host with equal hardware details share them, and hosts with the same processor
// share the list of its features. It follows that the hardware details of a host must never be
// changed in place. (An inspection replaces them as a whole.)

// Compact wraps the codec for the storage of hosts, so that they take little room: in etcd, their hardware
// details are packed; in memory, hosts share their hardware details with earlier versions of the same host, and with
// other hosts what they have in common with them.
func Compact(codec apiruntime.Codec) apiruntime.Codec {
	return compactCodec{Codec: codec, hardware: newHardwareTable(), pool: newInternPool()}
}

// compactCodec has what the hosts that it has decoded share.
type compactCodec struct {
	apiruntime.Codec
	hardware *hardwareTable
	pool     *internPool
}

// Decode decodes an object.
func (c compactCodec) Decode(data []byte, defaults *schema.GroupVersionKind, into apiruntime.Object) (apiruntime.Object, *schema.GroupVersionKind, error) {
	if host, ok := into.(*metal3.BareMetalHost); ok {
		// JSON is decoded into what is there already.
		host.ManagedFields, host.Status.Conditions, host.Status.HardwareDetails, host.Status.Record = nil, nil, nil, metal3.HostRecord{}
	}
	obj, kind, err := c.Codec.Decode(data, defaults, into)
	if host, ok := obj.(*metal3.BareMetalHost); ok && err == nil {
		c.hardware.unpack(host)
		c.pool.share(host)
	}
	return obj, kind, err
}

// Encode encodes an object for etcd.
func (c compactCodec) Encode(obj apiruntime.Object, w io.Writer) error {
	host, ok := obj.(*metal3.BareMetalHost)
	if !ok {
		return c.Codec.Encode(obj, w)
	}
	packed, err := c.hardware.pack(host)
	if err != nil {
		return fmt.Errorf("encoding the hardware details of host %s/%s: %w", host.Namespace, host.Name, err)
	}
	return c.Codec.Encode(packed, w)
}

// maxFlagLists bounds the lists of processor features that are kept, one for each model of
// processor in the fleet.
const maxFlagLists = 64

// hardwareTable finds the hardware details that a host has in memory already.
type hardwareTable struct {
	mu sync.Mutex
	// byHost has the hardware details last decoded for each host. forget removes the entry when they have
	// been freed.
	byHost map[types.UID]knownHardware
	flags  *lru.Cache // of []string, by the flags themselves
}

// knownHardware are hardware details, and what they are packed to, or nil if they have not been packed. The weak
// pointer does not keep them in memory.
type knownHardware struct {
	details weak.Pointer[metal3.HardwareDetails]
	packed  []byte
}

func newHardwareTable() *hardwareTable {
	return &hardwareTable{byHost: map[types.UID]knownHardware{}, flags: lru.New(maxFlagLists)}
}

// unpack replaces what etcd has of the hardware details of a host by the whole, which are those of an earlier version if
// they are equal. Nobody else may be using the host yet. What cannot be unpacked is left as it is, so
// that it is written back unchanged, and makes no list fail.
func (t *hardwareTable) unpack(host *metal3.BareMetalHost) {
	packed := host.Status.Record.Hardware
	known := t.known(host.UID)
	switch details := known.details.Value(); {
	case packed == nil:
		return
	case details != nil && bytes.Equal(packed, known.packed):
		host.Status.HardwareDetails, host.Status.Record.Hardware = details, nil
		return
	}
	details, err := unpackHardware(packed)
	if err != nil {
		klog.ErrorS(err, "The hardware details of a host cannot be read from etcd, and are not shown", "host", klog.KObj(host))
		return
	}
	host.Status.HardwareDetails, host.Status.Record.Hardware = details, nil
	t.learn(host.UID, details, packed)
}

// pack returns a host as it is stored. The host itself is not changed.
func (t *hardwareTable) pack(host *metal3.BareMetalHost) (*metal3.BareMetalHost, error) {
	details, stored := host.Status.HardwareDetails, *host
	switch {
	case details == nil:
		stored.Status.Record.Hardware = nil
		return &stored, nil
	case host.Status.Record.Hardware != nil && equality.Semantic.DeepEqual(details, identityOf(details)):
		return host, nil // they could not be unpacked
	}
	packed, err := t.packed(host.UID, details)
	if err != nil {
		return nil, err
	}
	stored.Status.Record.Hardware, stored.Status.HardwareDetails = packed, identityOf(details)
	return &stored, nil
}

// packed returns what hardware details are packed to. Those that are known are not packed again.
func (t *hardwareTable) packed(uid types.UID, details *metal3.HardwareDetails) ([]byte, error) {
	known := t.known(uid)
	former := known.details.Value()
	same := former != nil && (former == details || equality.Semantic.DeepEqual(former, details))
	if same && known.packed != nil {
		return known.packed, nil
	}
	packed, err := packHardware(details)
	if err == nil && same {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.byHost[uid].details == known.details {
			t.byHost[uid] = knownHardware{known.details, packed}
		}
	}
	return packed, err
}

func (t *hardwareTable) known(uid types.UID) knownHardware {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byHost[uid]
}

// learn remembers hardware details that were just decoded, and gives unused memory back.
func (t *hardwareTable) learn(uid types.UID, details *metal3.HardwareDetails, packed []byte) {
	// Decoding leaves slices with unused capacity; clones have less.
	details.NIC, details.Storage = slices.Clone(details.NIC), slices.Clone(details.Storage)
	details.CPU.Flags = t.sharedFlags(details.CPU.Flags)
	shareTextsWithin(details)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byHost[uid] = knownHardware{weak.Make(details), slices.Clone(packed)}
	runtime.AddCleanup(details, t.forget, uid)
}

// shareTextsWithin makes equal texts of hardware details one in memory. The disks of a machine are mostly of one model, and
// each has its path and its WWN twice.
func shareTextsWithin(details *metal3.HardwareDetails) {
	known := map[string]string{}
	share := func(texts ...*string) {
		for _, text := range texts {
			if former, ok := known[*text]; ok {
				*text = former
			} else {
				known[*text] = *text
			}
		}
	}
	for i := range details.NIC {
		nic := &details.NIC[i]
		share(&nic.Model, &nic.PCIAddress)
		if nic.LLDP != nil {
			share(&nic.LLDP.SwitchID, &nic.LLDP.PortID, &nic.LLDP.SwitchSystemName)
		}
		for j := range nic.VLANs {
			share(&nic.VLANs[j].Name)
		}
	}
	for i := range details.Storage {
		disk := &details.Storage[i]
		share(&disk.Name, (*string)(&disk.Type), &disk.Vendor, &disk.Model, &disk.SerialNumber, &disk.WWN, &disk.WWNVendorExtension, &disk.WWNWithExtension)
		for j := range disk.AlternateNames {
			share(&disk.AlternateNames[j])
		}
	}
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
	if t.byHost[host].details.Value() == nil {
		delete(t.byHost, host)
	}
}
