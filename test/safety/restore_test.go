// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// TestRestored takes hosts in every state through a day after a backup, restores the server's
// etcd, Ironic's database, or both, and follows docs/restore.md: no machine that runs something
// is written to or switched off, until all are as they are wanted.
func TestRestored(t *testing.T) {
	for _, r := range []restore{
		{name: "etcd", etcd: true},
		{name: "Ironic", ironic: sameHour},
		{name: "both", etcd: true, ironic: sameHour},
		{name: "different hours", etcd: true, ironic: laterHour},
	} {
		t.Run(r.name, func(t *testing.T) {
			if r.ironic == "" || r.ironic == sameHour && r.etcd {
				testbed.OnSimulator(t, "\"Ironic\" and \"different hours\" restore the database of a real one, too")
			}
			inParallel(t)
			r.run(t)
		})
	}
}

// restore is which backups are put back.
type restore struct {
	name   string
	etcd   bool
	ironic string
}

const (
	// sameHour is that of the backup of etcd.
	sameHour = "same hour"
	// laterHour is when half of the hosts have had their day.
	laterHour = "later hour"
)

// fleet is the hosts of one restore.
type fleet struct {
	*bed
	restore
	all []*fleetHost
}

func (r restore) run(t *testing.T) {
	otherwise := 10
	if testbed.IsSimulated() {
		otherwise = len(fates)
	}
	n := fromEnv(t, "RESTORE_HOSTS", otherwise)
	ctx, cancel := context.WithTimeout(t.Context(), 6*testbed.Patience)
	defer cancel()
	f := &fleet{bed: newBed(t, ctx, append([]string{"--provisioning-limit=100"}, lease...)...), restore: r}
	f.addHosts(n)
	f.start()
	f.prepare()
	putEtcdBack, backups := f.backUp()
	backups[laterHour] = f.day()

	f.stop()
	if r.etcd {
		putEtcdBack()
	}
	if r.ironic != "" {
		backups[r.ironic]()
		f.noteTransits()
	}
	f.start()
	if r.etcd {
		f.expectHeld()
		f.correct()
		f.expectHeld()
		f.compare("before the plan was accepted")
		f.accept()
	}
	f.settle()
	f.compare("after all")
	f.expectNodes()
}

// addHosts adds n hosts, each with the next of the fates.
func (f *fleet) addHosts(n int) {
	f.t.Helper()
	for i := range n {
		host := &fleetHost{fleet: f, fate: fates[i%len(fates)], morning: (i+i/len(fates))%2 == 0, machine: f.NewMachine(f.t)}
		host.name = fmt.Sprintf("%s-%d", host.fate.name, i)
		f.all = append(f.all, host)
	}
}

// begin asks for what is begun in the moment before the backup.
func (f *fleet) begin() {
	f.t.Helper()
	for _, h := range f.all {
		if h.begun != nil {
			h.begun(h)
		}
	}
}

// prepare brings the hosts to where the backup finds them.
func (f *fleet) prepare() {
	f.t.Helper()
	arrivals := map[string]arrival{}
	for _, h := range f.all {
		if h.created == nil {
			continue
		}
		if h.runs == strangers && h.wanted(h.created).Spec.ExternallyProvisioned {
			h.machine.Press(true)
		}
		h.create(h.created...)
		arrivals[h.name] = h.ready(h)
	}
	f.await("before the backup", arrivals)
}

// backUp stops the server in the middle of what was begun, and copies its etcd and Ironic's
// database. What it returns puts them back.
func (f *fleet) backUp() (etcd func(), ironic map[string]func()) {
	f.t.Helper()
	f.begin()
	f.stop()
	data := f.server.DataDir()
	backup := filepath.Join(f.t.TempDir(), "backup")
	if err := os.CopyFS(backup, os.DirFS(data)); err != nil {
		f.t.Fatal(err)
	}
	ironic = map[string]func(){sameHour: f.BackUp(f.t)}
	f.start()
	return func() {
		f.t.Helper()
		if err := os.RemoveAll(data); err != nil {
			f.t.Fatal(err)
		}
		if err := os.Rename(backup, data); err != nil {
			f.t.Fatal(err)
		}
	}, ironic
}

// day lets happen what happens after the backup, to one half of the hosts and then to the
// other. It returns what puts Ironic's database of in between back.
func (f *fleet) day() (later func()) {
	f.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "later"}, StringData: map[string]string{"username": "admin", "password": "password"}}
	if _, err := s.Core.CoreV1().Secrets(f.ns).Create(f.ctx, secret, metav1.CreateOptions{}); err != nil {
		f.t.Fatal(err)
	}
	for _, morning := range []bool{true, false} {
		for round := 0; ; round++ {
			arrivals := map[string]arrival{}
			for _, h := range f.all {
				if h.morning == morning && round < len(h.fate.day) {
					if h.fate.name == "external-since" {
						h.machine.Press(true)
					}
					h.fate.day[round].do(h)
					arrivals[h.name] = h.fate.day[round].end(h)
				}
			}
			if len(arrivals) == 0 {
				break
			}
			f.await(fmt.Sprintf("in round %d of the day", round), arrivals)
		}
		if morning {
			later = f.BackUp(f.t)
		}
	}
	for _, h := range f.all {
		h.atEnd = h.account()
	}
	return later
}

func (h *fleetHost) account() account {
	return account{Images: h.machine.Images(), Erasures: h.machine.Erasures(), PowerCuts: h.machine.PowerCuts()}
}

func (f *fleet) stop() {
	f.t.Helper()
	if _, err := f.server.Stop(); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fleet) list() map[string]*metal3.BareMetalHost {
	f.t.Helper()
	list, err := f.hosts.List(f.ctx, metav1.ListOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	hosts := map[string]*metal3.BareMetalHost{}
	for i := range list.Items {
		hosts[list.Items[i].Name] = &list.Items[i]
	}
	return hosts
}

// await waits until all of these hosts have arrived.
func (f *fleet) await(when string, arrivals map[string]arrival) {
	f.t.Helper()
	testbed.EventuallyEvery(f.t, f.ctx, 500*time.Millisecond, func() string {
		var missing []string
		hosts := f.list()
		for name, arrived := range arrivals {
			switch h, there := hosts[name]; {
			case !there && arrived != nil:
				missing = append(missing, name+" is not there")
			case there && (arrived == nil || !arrived(h)):
				missing = append(missing, describe(h))
			}
		}
		if len(missing) == 0 {
			return ""
		}
		slices.Sort(missing)
		return when + ":\n" + strings.Join(missing, "\n")
	})
}

// noteTransits notes on which nodes Ironic was at work when its database was copied. It
// has to end that in its own way, which may cut the power.
func (f *fleet) noteTransits() {
	f.t.Helper()
	for _, h := range f.all {
		nodes, err := f.nodesOf(h.machine)
		if err != nil {
			f.t.Fatal(err)
		}
		for _, node := range nodes {
			switch node.ProvisionState {
			case "enroll", "manageable", "available", "active":
			default:
				h.inTransit = true
			}
		}
	}
}

func heldFor(h *metal3.BareMetalHost) string {
	if held := meta.FindStatusCondition(h.Status.Conditions, metal3.HeldCondition); held != nil {
		return held.Reason
	}
	return ""
}

// expectHeld waits until all hosts are held, but for those that are paused.
func (f *fleet) expectHeld() {
	f.t.Helper()
	arrivals := map[string]arrival{}
	for name, h := range f.list() {
		if !metav1.HasAnnotation(h.ObjectMeta, metal3.PausedAnnotation) {
			arrivals[name] = func(h *metal3.BareMetalHost) bool { return heldFor(h) == metal3.RestoredReason }
		}
	}
	f.await("after the restore of etcd", arrivals)
}

// isKnown reports whether Ironic's database is about what the machine runs.
func (h *fleetHost) isKnown() bool {
	return !h.redeployed || h.ironic == "" || h.ironic == laterHour && h.morning
}

// correct is what a person does while the server is held: the hosts are made to be wanted
// as they are today. Of what neither the server nor Ironic can know, they are told.
func (f *fleet) correct() {
	f.t.Helper()
	hosts := f.list()
	for _, h := range f.all {
		host, there := hosts[h.name]
		switch {
		case h.today == nil && there: // its machine was given to another user
			h.leave(host)
		case h.today == nil:
		case !there:
			h.createToday()
		case h.mustComeBack(host):
			h.leave(host) // and is created by settle
		default:
			h.asExternal = !h.isKnown() && h.runs != "" && host.Status.Provisioning.State != metal3.StateProvisioned
			h.update(func(_ *fleetHost, host *metal3.BareMetalHost) { h.makeToday(host) })
			if !h.isKnown() && h.runs != "" && !h.asExternal {
				h.takeOver(host)
			}
		}
	}
}

// mustComeBack reports whether a host has to be taken out of Ironic and created anew. What was begun
// with it before the backup must not go on.
func (h *fleetHost) mustComeBack(host *metal3.BareMetalHost) bool {
	if !host.DeletionTimestamp.IsZero() {
		return true
	}
	switch host.Status.Provisioning.State {
	case metal3.StateProvisioned, metal3.StateExternallyProvisioned, metal3.StateAvailable:
		return false
	}
	return !h.isKnown() && h.runs != ""
}

// leave deletes a host, and leaves its machine alone.
func (h *fleetHost) leave(host *metal3.BareMetalHost) {
	h.t.Helper()
	h.update(isDetached)
	if host.DeletionTimestamp.IsZero() {
		h.delete()
	}
}

// createToday creates a host of which Ironic may know nothing.
func (h *fleetHost) createToday() {
	h.t.Helper()
	h.asExternal = h.runs != ""
	h.create(func(_ *fleetHost, host *metal3.BareMetalHost) { h.makeToday(host) })
}

// makeToday makes the spec and the annotations what they are to be today.
func (h *fleetHost) makeToday(host *metal3.BareMetalHost) {
	today := h.wanted(h.today)
	host.Spec.Image, host.Spec.Online, host.Spec.BMC = today.Spec.Image, today.Spec.Online, today.Spec.BMC
	host.Spec.ExternallyProvisioned = today.Spec.ExternallyProvisioned || h.asExternal
	for _, key := range []string{metal3.PausedAnnotation, metal3.DetachedAnnotation} {
		delete(host.Annotations, key)
		if value, has := today.Annotations[key]; has {
			metav1.SetMetaDataAnnotation(&host.ObjectMeta, key, value)
		}
	}
}

func (h *fleetHost) update(change change) {
	h.t.Helper()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		host, err := h.hosts.Get(h.ctx, h.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(h, host)
		_, err = h.hosts.Update(h.ctx, host, metav1.UpdateOptions{})
		return err
	})
	if err != nil && !apierrors.IsNotFound(err) { // it may have gone since it was listed
		h.t.Fatalf("%s: %v", h.name, err)
	}
}

func (h *fleetHost) takeOver(host *metal3.BareMetalHost) {
	h.t.Helper()
	request := &metal3.HostTakeover{Spec: metal3.HostTakeoverSpec{NodeUUID: host.Status.Provisioning.ID}}
	_, err := h.hosts.Takeover(h.ctx, h.name, request, metav1.CreateOptions{})
	// The host may have gone, or changed, since it was listed: then the next round decides.
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		h.t.Fatalf("%s: %v", h.name, err)
	}
	h.confirmed = err == nil // otherwise its node is another one since it was read
}

// accept lets the server go on.
func (f *fleet) accept() {
	f.t.Helper()
	patch := []byte(`{"metadata":{"annotations":{"metal3.io/restored":null}}}`)
	if _, err := s.Core.CoordinationV1().Leases(f.ns).Patch(f.ctx, "metal3-apiserver", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		f.t.Fatal(err)
	}
}

// settle does what is left to do for a person, until all hosts are as they are wanted.
func (f *fleet) settle() {
	f.t.Helper()
	testbed.EventuallyEvery(f.t, f.ctx, time.Second, func() string {
		hosts := f.list()
		var wrong []string
		for _, h := range f.all {
			host, there := hosts[h.name]
			if there {
				h.decide(host)
			} else if h.today != nil {
				h.createToday()
			}
			if !h.isRight(host) {
				wrong = append(wrong, h.complaint(host))
			}
		}
		slices.Sort(wrong)
		return strings.Join(wrong, "\n")
	})
}

func (h *fleetHost) complaint(host *metal3.BareMetalHost) string {
	if host == nil {
		return h.name + " is not there"
	}
	return describe(host)
}

// decide is for a host that waits for a person, who has looked at its machine.
func (h *fleetHost) decide(host *metal3.BareMetalHost) {
	h.t.Helper()
	i := host.Status.Ironic
	switch {
	case h.today == nil:
	case !metav1.HasAnnotation(host.ObjectMeta, metal3.DetachedAnnotation) && h.inTransit && i != nil && (i.ProvisionState == "error" || i.ProvisionState == "deploy failed"):
		h.update(isDetached) // Ironic cannot go on with what was under way
	case h.inTransit && host.Status.OperationalStatus == metal3.OperationalStatusDetached && !h.wantsDetached():
		unannotate(h)
	case h.confirmed:
	case heldFor(host) == metal3.AnotherDeploymentReason, heldFor(host) == metal3.DeploymentGoneReason:
		h.takeOver(host)
	case h.runs == "" && host.Status.Provisioning.State == metal3.StateProvisioned && host.Spec.Image == nil && host.Status.Provisioning.Image.URL == "" && i != nil && i.ProvisionState == "active":
		h.takeOver(host) // it is deployed in Ironic only
	}
}

func (h *fleetHost) wantsDetached() bool {
	return metav1.HasAnnotation(h.wanted(h.today).ObjectMeta, metal3.DetachedAnnotation)
}

// isRight reports whether a host is as it is wanted today.
func (h *fleetHost) isRight(host *metal3.BareMetalHost) bool {
	if h.today == nil || host == nil {
		return h.today == nil && host == nil
	}
	today := h.wanted(h.today)
	switch {
	case metav1.HasAnnotation(today.ObjectMeta, metal3.DetachedAnnotation):
		return detached(h)(host)
	case today.Spec.ExternallyProvisioned, h.asExternal && h.runs != "":
		return external(h)(host) || h.asExternal && today.Spec.Image != nil && isAtRest(metal3.StateProvisioned, today.Spec.Image.URL)(host)
	case today.Spec.Image == nil:
		return available(h)(host)
	}
	return isAtRest(metal3.StateProvisioned, today.Spec.Image.URL)(host)
}

// compare compares what was done to the machines with what it was at the end of the day.
func (f *fleet) compare(when string) {
	f.t.Helper()
	for _, h := range f.all {
		if h.runs == "" && when == "after all" {
			continue // its disks may be cleaned: nobody wants what is on them
		}
		want, got := h.atEnd, h.account()
		if h.inTransit {
			want.PowerCuts = got.PowerCuts
		}
		if diff := cmp.Diff(want, got); diff != "" {
			f.t.Errorf("%s: what was done to the machine of %s (-want +got):\n%s", when, h.name, diff)
		}
		if isOn := h.machine.IsOn(); h.runs != "" && isOn != h.isOnToday() {
			f.t.Errorf("%s: the machine of %s is on: %t", when, h.name, isOn)
		}
	}
}

func (h *fleetHost) isOnToday() bool { return h.today == nil || h.wanted(h.today).Spec.Online }

// expectNodes compares the nodes in Ironic with the hosts. Those that docs/restore.md names are
// left of hosts that are not in Ironic any more.
func (f *fleet) expectNodes() {
	f.t.Helper()
	for _, h := range f.all {
		nodes, err := f.nodesOf(h.machine)
		if err != nil {
			f.t.Fatal(err)
		}
		want := 1
		left := h.today == nil || h.wantsDetached()
		if left {
			want = 0
		}
		named := left && !f.etcd // of a database of before the host was deleted or detached
		if len(nodes) != want && !(named && len(nodes) == 1) {
			f.t.Errorf("the machine of %s has the nodes %+v in Ironic, not %d", h.name, nodes, want)
		}
	}
}
