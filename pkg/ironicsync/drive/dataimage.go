package drive

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// DataImages brings the virtual drives of hosts in line with their DataImages.
type DataImages interface {
	// BeforePowerOn returns true if the host, which is off, can be switched on now. Otherwise it is to be
	// called again a moment later, or, if problem says why the drive could not be changed, after a
	// back-off. It does not wait for the BMC.
	BeforePowerOn(ctx context.Context, host *metal3.BareMetalHost) (ready bool, problem string, err error)
}

// errDriveNotReady has a host planned again a moment later.
var errDriveNotReady = errors.New("the virtual drive is being changed")

// prepareDrive brings the virtual drive of a provisioned host in line with its DataImage before the
// host is switched on. A host whose drive could not be changed stays off and shows why.
func (c *Controller) prepareDrive(ctx context.Context, host *metal3.BareMetalHost) error {
	state := host.Status.Provisioning.State
	if c.images == nil || state != metal3.StateProvisioned && state != metal3.StateExternallyProvisioned {
		return nil
	}
	ready, problem, err := c.images.BeforePowerOn(ctx, host)
	switch {
	case err != nil:
		return err
	case problem != "":
		return &blocked{problem}
	case !ready:
		return errDriveNotReady
	}
	return nil
}

// OnHostChange has changed called with the versions of a host before and after each change; nil
// where the host did not exist. It must be called before Run, and changed must not block. hasSynced
// tells whether it was called for all hosts that existed when Run was called.
func (c *Controller) OnHostChange(changed func(old, host *metal3.BareMetalHost)) (hasSynced func() bool, err error) {
	as := func(obj any) *metal3.BareMetalHost {
		if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = tombstone.Obj
		}
		host, _ := obj.(*metal3.BareMetalHost)
		return host
	}
	handler, err := c.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { changed(nil, as(obj)) },
		UpdateFunc: func(old, obj any) { changed(as(old), as(obj)) },
		DeleteFunc: func(obj any) {
			if host := as(obj); host != nil {
				changed(host, nil)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	return handler.HasSynced, nil
}

// PlanHost has a host planned at once, without waiting for the back-off of a failure.
func (c *Controller) PlanHost(namespace, name string) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	c.backoffOf(key, (*backoff).end)
	c.queue.Add(key)
}
