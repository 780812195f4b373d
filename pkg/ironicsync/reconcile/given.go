// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"crypto/sha256"
	"encoding/json"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/executor"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/kinds"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

// HardwareStore keeps the HardwareData objects, one for each host, of its name.
type HardwareStore interface {
	executor.HardwareStore
	kinds.Objects
	kinds.Updater[*metal3.HardwareData]
}

// givenHardware tells for which hosts a HardwareData gives the hardware, and has the host of each that changes planned
// again. It lets those go that have no host: see left_hardware.go.
type givenHardware struct {
	store    HardwareStore
	hosts    kinds.Getter[*metal3.BareMetalHost]
	informer cache.SharedIndexInformer
	// left are those to look at because they, or their hosts, are being deleted.
	left workqueue.TypedRateLimitingInterface[types.NamespacedName]
}

// hardwareDigest tells hardware details apart. The zero one is that of none.
type hardwareDigest [sha256.Size]byte

// digestedHardware is what is kept in memory of a HardwareData, which is as large as all else of its host.
type digestedHardware struct {
	metav1.ObjectMeta
	digest hardwareDigest
}

func newGivenHardware(store HardwareStore, hosts kinds.Getter[*metal3.BareMetalHost], requeue func(types.NamespacedName)) *givenHardware {
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: store.List, WatchFuncWithContext: store.Watch,
	}, &metal3.HardwareData{}, 0, nil)
	left := newLeftQueue()
	changed := func(old, obj any) {
		data, ok := obj.(*digestedHardware)
		if before, had := old.(*digestedHardware); ok && !(had && before.isAs(data)) { // else it has other labels or so
			requeue(kinds.KeyOf(data))
		}
		if ok && !data.DeletionTimestamp.IsZero() {
			left.Add(kinds.KeyOf(data))
		}
	}
	// Neither fails before the informer runs.
	_ = informer.SetTransform(withDigestOnly)
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(obj any) { changed(nil, obj) }, UpdateFunc: changed})
	return &givenHardware{store, hosts, informer, left}
}

// withDigestOnly drops the hardware details themselves.
func withDigestOnly(obj any) (any, error) {
	data, ok := obj.(*metal3.HardwareData)
	if !ok {
		return obj, nil
	}
	return &digestedHardware{
		metav1.ObjectMeta{
			Namespace: data.Namespace, Name: data.Name, UID: data.UID, ResourceVersion: data.ResourceVersion,
			DeletionTimestamp: data.DeletionTimestamp, OwnerReferences: data.OwnerReferences,
		},
		digestOf(data.Spec.HardwareDetails),
	}, nil
}

// isAs reports whether a HardwareData says the same of the same hosts.
func (d *digestedHardware) isAs(other *digestedHardware) bool {
	return d.digest == other.digest && d.UID == other.UID && equality.Semantic.DeepEqual(d.OwnerReferences, other.OwnerReferences)
}

func digestOf(details *metal3.HardwareDetails) hardwareDigest {
	if details == nil {
		return hardwareDigest{}
	}
	text, err := json.Marshal(details)
	if err != nil {
		panic(err) // cannot happen: it was decoded from JSON
	}
	return sha256.Sum256(text)
}

// isFor reports whether a host is to take its hardware over from its HardwareData. Without inspections, that has the say at any time. It
// stands for an inspection of a host without hardware: one that is new, whose Ironic keeps no inventory, or that has run something since
// before it was moved here. (Cluster API Provider Metal3 leaves the hardware out of the status that such a host brings along, and an
// Ironic that has never inspected the machine does not know it either.) What an inspection finds, or has found, is never replaced.
func (g *givenHardware) isFor(ctx context.Context, host *metal3.BareMetalHost) (bool, error) {
	details := host.Status.HardwareDetails
	switch host.Status.Provisioning.State {
	case metal3.StateInspecting:
		return false, nil
	case metal3.StateRegistering, metal3.StateProvisioned, metal3.StateExternallyProvisioned:
		if details == nil { // the watch may not know yet what was created before the host, and then the machine would be inspected
			data, err := g.store.Get(ctx, host.Namespace, host.Name)
			if apierrors.IsNotFound(err) {
				return false, nil
			}
			return err == nil && data.Spec.HardwareDetails != nil && lifecycle.IsHardwareFor(host, data), err
		}
	}
	if details != nil && !host.InspectionDisabled() {
		return false, nil
	}
	data, exists := g.known(keyOf(host))
	return exists && data.digest != hardwareDigest{} && data.digest != digestOf(details) && lifecycle.IsHardwareFor(host, data), nil
}

// known returns a HardwareData as the informer has it.
func (g *givenHardware) known(key types.NamespacedName) (data *digestedHardware, exists bool) {
	found, _, _ := g.informer.GetStore().GetByKey(key.String()) // the error is never set
	data, exists = found.(*digestedHardware)
	return data, exists
}
