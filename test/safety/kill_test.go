// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// lease has a server that was killed be followed by the next one within two seconds. On the
// simulator TestKilled does without, for each of its kills to meet a server that leads.
var lease = []string{"--leader-elect-lease-duration=2s", "--leader-elect-renew-deadline=1500ms", "--leader-elect-retry-period=300ms"}

// TestKilled kills the server, embedded etcd and all, at random moments of the whole lives of
// its hosts: create, provision, reboot, rebuild, another image, deprovision, delete, and from the
// beginning. Each has one node, each image that was asked for is written once, each cleaning
// is done once, and the power is cut once for each reboot. On a real Ironic, some of them have BIOS settings
// and firmware changed, which is flashed once, and BIOS settings once more while they are provisioned.
//
// KILLS says how often, 20 times without it. The moments come from a fixed seed; SEED gives others. HOSTS says how many
// hosts there are.
func TestKilled(t *testing.T) {
	inParallel(t)
	kills, seed := fromEnv(t, "KILLS", 20), fromEnv(t, "SEED", 1)
	t.Logf("%d kills, SEED=%d", kills, seed)
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	ctx, cancel := context.WithTimeout(t.Context(), 6*testbed.Patience+time.Duration(kills)*time.Minute)
	defer cancel()
	args := lease
	if testbed.IsSimulated() {
		args = []string{"--leader-elect=false"}
	}
	b := newBed(t, ctx, args...)
	orphans := b.orphanRequests()
	b.start()

	lives := b.beginLives(manyHosts(t))
	for kill := range kills {
		if kill > 0 && kill%100 == 0 {
			t.Logf("%d kills so far", kill)
		}
		if !waitFor(ctx, time.Duration(random.IntN(2500))*time.Millisecond) {
			break
		}
		if err := b.server.Kill(); err != nil {
			t.Fatal(err)
		}
		b.start()
	}
	ended, steps := lives.end()
	t.Logf("%d lives with %d steps were interrupted by %d kills, which left %d requests", ended, steps, kills, orphans())
}

// orphanRequests has the simulator queue requests for another state of a node, as a load balancer does, and carry out those of a server
// that is killed meanwhile when the next one is at work. left returns how many there were.
func (b *bed) orphanRequests() (left func() int) {
	sim, ok := b.ironicUnderTest.(simulatedIronic)
	if !ok {
		return func() int { return 0 }
	}
	var count atomic.Int64
	orphaned := func() time.Duration {
		count.Add(1)
		return 20 * time.Second
	}
	sim.Judge(func(kind string, _ *http.Request) ironicsim.Verdict {
		if strings.HasPrefix(kind, "PUT /v1/nodes/{node}/states/") {
			return ironicsim.Verdict{Queued: time.Second, Orphaned: orphaned}
		}
		return ironicsim.Verdict{}
	})
	return func() int { return int(count.Load()) }
}

// waitFor waits for a random moment, and reports whether ctx has lasted so long.
func waitFor(ctx context.Context, moment time.Duration) bool {
	timer := time.NewTimer(moment)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// lives are those of hosts that live at the same time.
type lives struct {
	over    chan struct{} // closed when no further life is to begin
	lives   []*life
	running sync.WaitGroup
}

// manyHosts is how many hosts live at the same time. All that a real Ironic does for twenty hosts it does in one
// thread, so most of the time nothing would happen that a kill could interrupt.
func manyHosts(t *testing.T) int {
	t.Helper()
	return fromEnv(t, "HOSTS", map[bool]int{true: 20, false: 8}[testbed.IsSimulated()])
}

func (b *bed) beginLives(hosts int) *lives {
	l := &lives{over: make(chan struct{}), lives: make([]*life, hosts)}
	for i := range l.lives {
		l.lives[i] = &life{bed: b, name: fmt.Sprintf("worker-%02d", i), machine: b.NewMachine(b.t), deletedProvisioned: i%2 == 0, tuned: i%5 == 0 && b.FirmwareURL("1.46.0") != ""}
		if l.lives[i].tuned {
			b.createSecret(l.lives[i].secret())
		}
		l.running.Go(func() { l.lives[i].repeat(l.over) })
	}
	return l
}

// end waits until the lives that have begun have ended, and returns how many there were, and how
// many steps they had.
func (l *lives) end() (ended, steps int) {
	close(l.over)
	l.running.Wait()
	for _, life := range l.lives {
		ended, steps = ended+life.ended, steps+life.steps
	}
	return ended, steps
}

// life is a host that lives again and again on one machine.
type life struct {
	*bed
	name    string
	machine machine
	// deletedProvisioned has it deleted while it runs something.
	deletedProvisioned bool
	// tuned has its BIOS settings and its firmware changed.
	tuned bool

	ended, steps int
}

// repeat lives until over is closed, and through the life that has begun then.
func (l *life) repeat(over <-chan struct{}) {
	for {
		select {
		case <-over:
			return
		default:
		}
		if err := l.live(); err != nil {
			l.t.Errorf("%s, after %d lives: %v", l.name, l.ended, err)
			return
		}
		l.ended++
	}
}

// account is what was done to a machine.
type account struct {
	Images, Updates     []string
	Erasures, PowerCuts int
}

func (l *life) account() account {
	return account{l.machine.Images(), l.machine.Updates(), l.machine.Erasures(), l.machine.PowerCuts()}
}

func (l *life) live() error {
	first, checksum := l.Image("first.raw")
	second, other := l.Image("second.raw")
	patch := func(patch string) func() error {
		return func() error {
			return l.persist(func() error {
				_, err := l.hosts.Patch(l.ctx, l.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
				return err
			})
		}
	}
	image := func(url, checksum string) string {
		return fmt.Sprintf(`{"spec":{"image":{"url":%q,"checksum":%q,"checksumType":"sha256","format":"raw"}}}`, url, checksum)
	}
	remove := func() error {
		return l.persist(func() error {
			err := l.hosts.Delete(l.ctx, l.name, metav1.DeleteOptions{})
			if apierrors.IsNotFound(err) {
				return nil // an earlier request had got through
			}
			return err
		})
	}
	reboot := func(mark string) error {
		return l.persist(func() error {
			host, err := l.hosts.Get(l.ctx, l.name, metav1.GetOptions{})
			if err != nil || metav1.HasAnnotation(host.ObjectMeta, mark) {
				return err // an earlier request had got through, and the next would be another reboot
			}
			patch := fmt.Sprintf(`{"metadata":{"annotations":{"reboot.metal3.io":"{\"mode\":\"hard\"}",%q:""}}}`, mark)
			_, err = l.hosts.Patch(l.ctx, l.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
			return err
		})
	}
	rebuild := func() error {
		before := len(l.machine.Images())
		return l.persist(func() error {
			host, err := l.hosts.Get(l.ctx, l.name, metav1.GetOptions{})
			if err != nil || host.Status.Provisioning.State == metal3.StateProvisioning || len(l.machine.Images()) > before {
				return err // an earlier request had got through, and the next would be another rebuild
			}
			_, err = l.hosts.Rebuild(l.ctx, l.name, &metal3.HostRebuild{}, metav1.CreateOptions{})
			return err
		})
	}
	const powerNotCounted = -1
	type step struct {
		what     string
		do       func() error
		arrived  func(*metal3.BareMetalHost) bool // nil: it is gone
		images   []string
		updates  []string
		erasures int
		cuts     int
	}
	steps := []step{
		{what: "created", do: l.create, arrived: isAtRest(metal3.StateAvailable, ""), cuts: powerNotCounted},
		{what: "provisioned", do: patch(image(first, checksum)), arrived: isAtRest(metal3.StateProvisioned, first), images: []string{first}, erasures: 1, cuts: powerNotCounted},
		{what: "rebooted", do: func() error { return reboot("test.metal3.io/rebooted") }, arrived: isRebooted, cuts: 1},
		{what: "rebuilt", do: rebuild, arrived: isAtRest(metal3.StateProvisioned, first), images: []string{first}, cuts: powerNotCounted},
		{what: "provisioned with another image", do: patch(image(second, other)), arrived: isAtRest(metal3.StateProvisioned, second), images: []string{second}, erasures: 1, cuts: powerNotCounted},
	}
	if l.tuned {
		firmware := l.FirmwareURL("1.46.0")
		prepared := step{what: "prepared", updates: []string{firmware}, cuts: powerNotCounted, do: func() error {
			return errors.Join(l.setBIOS(8), l.updateFirmware(firmware))
		}, arrived: func(h *metal3.BareMetalHost) bool {
			return isAtRest(metal3.StateAvailable, "")(h) && l.hasSettings("8", firmware)
		}}
		serviced := step{what: "serviced", cuts: powerNotCounted, do: func() error {
			return errors.Join(l.permitChanges(), l.setBIOS(4), reboot("test.metal3.io/serviced"))
		}, arrived: func(h *metal3.BareMetalHost) bool {
			return isRebooted(h) && isAtRest(metal3.StateProvisioned, first)(h) && l.hasSettings("4", firmware)
		}}
		left := step{what: "left alone", do: l.permitNothing, arrived: isAtRest(metal3.StateProvisioned, first)}
		steps = slices.Insert(steps, 2, serviced, left)
		steps = slices.Insert(steps, 1, prepared)
	}
	if l.deletedProvisioned {
		steps = append(steps, step{what: "deleted", do: remove, erasures: 1, cuts: powerNotCounted})
	} else {
		steps = append(steps,
			step{what: "deprovisioned", do: patch(`{"spec":{"image":null}}`), arrived: isAtRest(metal3.StateAvailable, ""), erasures: 1, cuts: powerNotCounted},
			step{what: "deleted", do: remove, cuts: 1})
	}
	for _, s := range steps {
		before := l.account()
		if err := s.do(); err != nil {
			return fmt.Errorf("to be %s: %w", s.what, err)
		}
		if err := l.await(s.what, s.arrived); err != nil {
			return err
		}
		want := account{append(before.Images, s.images...), append(before.Updates, s.updates...), before.Erasures + s.erasures, before.PowerCuts + s.cuts}
		got := l.account()
		if s.cuts == powerNotCounted { // Ironic cuts it itself to boot the ramdisk
			want.PowerCuts = got.PowerCuts
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("what was done to its machine while it was %s (-want +got):\n%s", s.what, diff)
		}
		if err := l.oneNode(s.arrived == nil); err != nil {
			return fmt.Errorf("after it was %s: %w", s.what, err)
		}
		l.steps++
	}
	return nil
}

// secret is the name of the Secret of the host's BMC. Whenever another host claims a Secret that they
// share, its version changes, and after a restart the server gives Ironic the password again. That PATCH makes
// Ironic 29.0.5 unable to update the firmware.
func (l *life) secret() string {
	if l.tuned {
		return l.name
	}
	return "bmc"
}

func (l *life) create() error {
	return l.persist(func() error {
		host := newHost(l.name, l.machine)
		host.Spec.BMC.CredentialsName = l.secret()
		_, err := l.hosts.Create(l.ctx, host, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil // an earlier request had got through
		}
		return err
	})
}

func newHost(name string, m machine) *metal3.BareMetalHost {
	return &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: metal3.BareMetalHostSpec{
		Online: true, BootMACAddress: m.MAC(), BMC: metal3.BMCDetails{Address: m.Address(), CredentialsName: "bmc"},
	}}
}

func imageOf(url, checksum string) *metal3.Image {
	return &metal3.Image{URL: url, Checksum: checksum, ChecksumType: metal3.SHA256, DiskFormat: ptr.To(metal3.Raw)}
}

// persist repeats a request until it gets through to a server that is alive.
func (l *life) persist(request func() error) error {
	var last error
	err := wait.PollUntilContextCancel(l.ctx, 300*time.Millisecond, true, func(context.Context) (bool, error) {
		last = request()
		if apierrors.IsInvalid(last) {
			return false, last
		}
		return last == nil, nil // it may be forbidden as long as the server does not know the client CA
	})
	if err != nil {
		return fmt.Errorf("%w (%w)", err, last)
	}
	return nil
}

// await waits until the host has arrived, or is gone where arrived is nil.
func (l *life) await(what string, arrived func(*metal3.BareMetalHost) bool) error {
	last := ""
	err := wait.PollUntilContextCancel(l.ctx, 500*time.Millisecond, true, func(context.Context) (bool, error) {
		host, err := l.hosts.Get(l.ctx, l.name, metav1.GetOptions{})
		if err != nil {
			if arrived != nil || !apierrors.IsNotFound(err) {
				last = err.Error()
			}
			return arrived == nil && apierrors.IsNotFound(err), nil
		}
		last = describe(host)
		return arrived != nil && arrived(host), nil
	})
	if err != nil {
		return fmt.Errorf("it is not %s in time: %s", what, last)
	}
	return nil
}

func describe(h *metal3.BareMetalHost) string {
	return fmt.Sprintf("%s is %s %q, on %t, error %d %q, Ironic %+v", h.Name, h.Status.Provisioning.State, h.Status.OperationalStatus, h.Status.PoweredOn, h.Status.ErrorCount, h.Status.ErrorMessage, h.Status.Ironic)
}

// oneNode looks for the nodes of the machine in Ironic.
func (l *life) oneNode(gone bool) error {
	nodes, err := l.nodesOf(l.machine)
	if err != nil {
		return err
	}
	if want := map[bool]int{true: 0, false: 1}[gone]; len(nodes) != want {
		return fmt.Errorf("there are nodes %+v in Ironic, not %d", nodes, want)
	}
	return nil
}

// isAtRest reports whether a host has arrived in a state, with the image if any, and all is well.
func isAtRest(state metal3.ProvisioningState, image string) func(*metal3.BareMetalHost) bool {
	return func(h *metal3.BareMetalHost) bool {
		i := h.Status.Ironic
		return h.Status.Provisioning.State == state && h.Status.Provisioning.Image.URL == image && h.Status.ErrorMessage == "" &&
			h.Status.OperationalStatus == metal3.OperationalStatusOK && h.Status.PoweredOn == h.Spec.Online &&
			i != nil && i.TargetPowerState == "" && i.Reservation == "" &&
			(i.ProvisionState == "active" || state == metal3.StateAvailable && (i.ProvisionState == "available" || i.ProvisionState == "manageable"))
	}
}

func isRebooted(h *metal3.BareMetalHost) bool {
	_, asked := h.Annotations[metal3.RebootAnnotation]
	return !asked && h.Status.PoweredOn && h.Status.ErrorMessage == "" && h.Status.Ironic != nil && h.Status.Ironic.TargetPowerState == ""
}
