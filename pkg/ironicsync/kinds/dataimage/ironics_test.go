// SPDX-License-Identifier: Apache-2.0

package dataimage

import (
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/kinds"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
)

// untouched is an Ironic that panics when it is asked for anything.
type untouched struct{ Ironic }

// Only the Ironic that has a host's node is asked, before a power-on and when the DataImage is deleted.
func TestTheHostsOwnIronicIsAsked(t *testing.T) {
	w := newWorld(t)
	w.ironics = enginetest.Ironics[Ironic]{"": untouched{}, "room-b": w, "room-c": untouched{}}
	w.host.Status.Record.Ironic = "room-b"
	c := w.controller()
	if ready, problem := w.powerOn(c); !ready || w.drive != w.image.Spec.URL {
		t.Errorf("ready %t, problem %q, %q is in the drive", ready, problem, w.drive)
	}
	w.image.DeletionTimestamp = new(metav1.Now())
	for range 5 {
		w.reconcile(c)
	}
	if w.image != nil || w.drive != "" {
		t.Errorf("%q is in the drive; what is left is %+v", w.drive, w.image)
	}
}

// While it is not known where the Ironic of a host is, nothing is asked, the host stays off, and a DataImage that is being deleted
// stays. Both are tried again.
func TestUnknownIronic(t *testing.T) {
	w := newWorld(t)
	w.host.Status.Record.Ironic = "room-b"
	w.ironics = enginetest.Ironics[Ironic]{"": untouched{}}
	c := w.controller()
	const want = "IronicInstance room-b does not exist"
	isWanted := func(err error) bool { return ironic.IsUnavailable(err) && strings.Contains(err.Error(), want) }
	if ready, problem, err := c.BeforePowerOn(t.Context(), w.host); ready || problem != "" || err != nil {
		t.Fatalf("%t, %q, %v", ready, problem, err)
	}
	if _, err := c.reconcile(t.Context(), kinds.KeyOf(w.image)); !isWanted(err) {
		t.Errorf("the DataImage is reconciled with %v", err)
	}
	if ready, _, err := c.BeforePowerOn(t.Context(), w.host); ready || !isWanted(err) {
		t.Errorf("the host is told %t, %v", ready, err)
	}
	w.ironics["room-b"] = w
	if ready, problem := w.powerOn(c); !ready || w.drive == "" {
		t.Errorf("when the Ironic is known: ready %t, problem %q", ready, problem)
	}

	delete(w.ironics, "room-b")
	w.image.DeletionTimestamp = new(metav1.Now())
	if _, err := c.reconcile(t.Context(), kinds.KeyOf(w.image)); !isWanted(err) || w.image == nil || w.drive == "" {
		t.Errorf("the DataImage is deleted with %v; %q is in the drive", err, w.drive)
	}
	w.ironics["room-b"] = w
	for range 5 {
		w.reconcile(c)
	}
	if w.image != nil || w.drive != "" {
		t.Errorf("when the Ironic is known, %q is in the drive; what is left is %+v", w.drive, w.image)
	}
}

// hanging is an Ironic that does not answer.
type hanging struct{ Ironic }

func (hanging) GetNode(ctx context.Context, _ string) (*ironic.Node, error) {
	return nil, enginetest.Hang(ctx)
}

// The image of a host whose Ironic answers is ejected at once, though there are many in another Ironic, which does not answer.
func TestAnIronicThatHangsDelaysItsOwnHostsOnly(t *testing.T) {
	w := newWorld(t)
	w.ironics["room-b"] = hanging{}
	w.drive = w.image.Spec.URL
	enginetest.HangsAlone(t, w.host, ironic.DriveConnections*4, func(hosts []*metal3.BareMetalHost) func(context.Context) error {
		images := enginetest.NewStock[*metal3.DataImage]("dataimages")
		for _, host := range hosts {
			image := w.image.DeepCopy()
			image.Name, image.DeletionTimestamp, image.Status.AttachedImage.URL = host.Name, new(metav1.Now()), w.drive
			_, _ = images.Create(t.Context(), image)
		}
		deps := w.deps()
		deps.Images, deps.Hosts, deps.Events = images, enginetest.NewStock("baremetalhosts", hosts...), enginetest.NoEvents{}
		return New(deps).Run
	}, func() {
		if w.drive != "" {
			t.Errorf("%s is in the drive still, after the requests %q", w.drive, w.requests)
		}
	})
}
