// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	ironicapi "github.com/metal3-io/metal3-apiserver/pkg/apis/ironic/v1alpha1"
	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/bmo"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/executor"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/firmware"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/reconcile"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/registrar"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/secrets"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

// world is a cluster, an Ironic and, one after the other, the processes of a
// controller between them.
type world struct {
	t     *testing.T
	hosts *enginetest.Hosts
	sim   *enginetest.Ironic
	// other is the Ironic of another room, if there is one.
	other   *enginetest.Ironic
	secrets *secretStore
	// hardware are the HardwareData objects, events what was told.
	hardware   memoryHardware
	events     *memoryEvents
	firmware   *memoryFirmware
	components *memoryComponents
	policies   *memoryObjects[*metal3.HostUpdatePolicy]
	active     reconcile.LeaderStatus
	ended      <-chan struct{} // closed when what run has begun has ended
	rewrites   int             // of Secrets
	// superseded has another replica lead.
	superseded atomic.Bool
	fuse       *fuse
	isKilled   bool   // as goOn has noticed
	stop       func() // ends the process and waits for its end
	// images and hostImages can be set before the process begins. planHost is that of its controller, and remembered
	// returns the hosts of which it remembers a failure.
	groups     *ironicapi.IronicConductorGroups
	images     executor.DataImages
	hostImages registrar.HostImages
	planHost   func(namespace, name string)
	hold       *reconcile.Hold // of the process that runs, as is operator
	restored   string          // why etcd seems to be restored to a process that begins
	restoredAt int64           // the count in etcd at its last restore
	operator   *bmo.Watch      // which does not look at Leases unless the test has it run
	remembered func() []string
	mayAct     func() bool                 // nil: whenever it leads
	confirm    func(context.Context) error // nil: etcd cannot be restored
}

// ironicClient is all of Ironic that a process uses.
type ironicClient interface {
	live.Nodes
	reconcile.Ironic
}

// inSimulation runs a test in a bubble, with a simulated Ironic and a controller running.
func inSimulation(t *testing.T, options ironicsim.Options, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newSimulatedWorld(t, options)
		w.start(0)
		defer func() { w.stop() }()
		test(t, w)
	})
}

func newSimulatedWorld(t *testing.T, options ironicsim.Options) *world {
	return newWorldOf(t, enginetest.NewIronic(t, options))
}

// newWorldOf returns a cluster at an Ironic that it may share with others.
func newWorldOf(t *testing.T, sim *enginetest.Ironic) *world {
	// A read of firmware lists, which others share, ends some seconds after who has asked for it; and the bubble must not end before.
	t.Cleanup(func() { time.Sleep(15 * time.Second) })
	return &world{t: t, sim: sim, hosts: enginetest.NewHosts(), firmware: newMemoryFirmware(sim), components: newMemoryComponents(sim), policies: newMemoryObjects[*metal3.HostUpdatePolicy]("hostupdatepolicies"), secrets: newSecretStore(t), hardware: memoryHardware{newMemoryObjects[*metal3.HardwareData]("hardwaredata")}, events: &memoryEvents{}}
}

// start begins a process, which is killed at the given step; at 0, never.
func (w *world) start(killedAt int) {
	ctx, cancel := context.WithCancel(w.t.Context())
	w.fuse = &fuse{at: killedAt, kill: cancel}
	w.secrets.mu.Lock()
	w.secrets.fuse = w.fuse
	w.secrets.mu.Unlock()
	w.run(ctx, cancel, mortalHosts{w.hosts, w.fuse}, w.sim.Process(w.fuse.step), reconcile.Settings{BMCs: anywhere, Images: anywhere, MaxProvisioningRetries: 3, Workers: 4, PollInterval: time.Second, ConductorGroups: w.groups})
}

// failure is the error of what fails.
const failure = "it failed"

// failNext has the next operation of a kind fail on the node of the host. See FailNext of the simulator.
func (w *world) failNext(phase string) {
	w.t.Helper()
	if err := w.sim.Sim.FailNext(w.host().Status.Provisioning.ID, phase, failure); err != nil {
		w.t.Fatal(err)
	}
}

// failTimes has as many operations of a kind fail as are asked for next, of whichever nodes.
func (w *world) failTimes(times int32, phase, text string) {
	var left atomic.Int32
	left.Store(times)
	call := cmp.Or(map[string]string{"verify": "manage"}[phase], phase)
	w.sim.Intercept(func(name string, r *http.Request) error {
		if name == call && left.Add(-1) >= 0 {
			return w.sim.Sim.FailNext(strings.Split(r.URL.Path, "/")[3], phase, text)
		}
		return nil
	})
}

// setNode changes a field of the node of the host, as something that happens in Ironic.
func (w *world) setNode(field string, value any) {
	w.t.Helper()
	if err := w.sim.Sim.SetNode(w.host().Status.Provisioning.ID, map[string]any{field: value}); err != nil {
		w.t.Fatal(err)
	}
}

// before has something happen once in Ironic, just before the first request of a name for which isNext is so.
func (w *world) before(request string, isNext func() bool, happens func()) {
	var once sync.Once
	w.sim.Intercept(func(call string, _ *http.Request) error {
		if call == request && isNext() {
			once.Do(happens)
		}
		return nil
	})
}

// oneIronic is the only Ironic behind a server.
type oneIronic struct{ member *reconcile.Member }

func (oneIronic) HasSynced() bool { return true }

func (oneIronic) Known() []string { return []string{""} }

func (i oneIronic) Members() (members []*reconcile.Member, changed <-chan struct{}) {
	return []*reconcile.Member{i.member}, nil
}

func (oneIronic) OwnerOf(*metal3.BareMetalHost) (name, problem string) { return "", "" }

// run begins a process between hosts and client, until w.stop is called or ctx ends.
func (w *world) run(ctx context.Context, cancel func(), hosts live.Hosts, client ironicClient, settings reconcile.Settings) {
	refresher := live.NewRefresher(ctx, live.Deps{Hosts: hosts, Nodes: client, Secrets: enginetest.NoSecret, Clock: clock.RealClock{}, Wait: enginetest.ReaderWait, Cluster: enginetest.UnknownCluster})
	var ironics reconcile.Ironics = oneIronic{&reconcile.Member{Ironic: client, Refresher: refresher, Settings: settings}}
	if w.other != nil {
		ironics = w.twoRooms(ctx, hosts, &reconcile.Member{Ironic: client, Refresher: refresher, Settings: settings})
	}
	planner := reconcile.NewPlanner()
	hold, watch := w.newHold()
	w.hold, w.operator = hold, watch
	controller := reconcile.New(reconcile.Deps{
		Planner: planner, Hold: hold, Operator: watch, Clock: clock.RealClock{},
		Hosts: hosts, Ironics: ironics,
		Secrets:  secrets.New(w.secrets.client, w.secrets.metadata, nil),
		Hardware: w.hardware, Firmware: firmware.Deps{Settings: w.firmware.keeper, Components: w.components.keeper, Policies: w.policies}, Events: w.events, DataImages: w.images, HostImages: w.hostImages, Leading: func() bool { return !w.superseded.Load() }, MayAct: w.mayAct, RestoredAt: func() int64 { return w.restoredAt }, Confirm: w.confirm,
	}, settings)
	w.planHost, w.remembered = planner.PlanHost, planner.Remembered
	ended := make(chan struct{})
	w.ended = ended
	go func() {
		defer close(ended)
		_ = w.active.Run(ctx, controller) // an error is that of a killed process
		refresher.Wait()
	}()
	w.stop = func() { cancel(); <-ended }
}

// newHold returns what holds all hosts, and sets it when there are signs of the Bare Metal Operator.
func (w *world) newHold() (*reconcile.Hold, *bmo.Watch) {
	hold := reconcile.NewHold()
	hold.Set(metal3.RestoredReason, w.restored)
	return hold, bmo.NewWatch(w.secrets.client.CoordinationV1(), bmo.DefaultNamespaces, clock.RealClock{}, func(reason string) { hold.Set(metal3.OperatorRunningReason, reason) })
}

// after waits until something is so, and returns how long that took, in the
// bubble's time. Who waits for hours looks more rarely: each look computes something.
func (w *world) after(limit time.Duration, what string, condition func() bool) time.Duration {
	w.t.Helper()
	began := time.Now()
	for !condition() {
		if time.Since(began) > limit {
			w.t.Fatalf("after %s it is still not so: %s", limit, what)
		}
		time.Sleep(min(max(50*time.Millisecond, time.Since(began)/1000), time.Second))
	}
	return time.Since(began)
}

func (w *world) secret(password string) {
	w.t.Helper()
	data := map[string][]byte{"username": []byte("admin")}
	if password != "" {
		data["password"] = []byte(password)
	}
	if err := w.secrets.put(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: enginetest.Namespace, Name: "bmc"}, Data: data}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) storedSecret() *corev1.Secret {
	w.t.Helper()
	secret, err := w.secrets.client.CoreV1().Secrets(enginetest.Namespace).Get(context.Background(), "bmc", metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return secret
}

func enrolled(i int) *metal3.BareMetalHost {
	host := &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: enginetest.Namespace, Name: enginetest.HostName(i)}}
	host.Spec.Online = true
	host.Spec.BMC = metal3.BMCDetails{Address: fmt.Sprintf("ipmi://192.168.111.%d", i+1), CredentialsName: "bmc"}
	host.Spec.BootMACAddress = fmt.Sprintf("00:ab:4f:d8:9e:%02x", i)
	return host
}

func (w *world) host() *metal3.BareMetalHost { return w.hosts.Host(w.t, enginetest.HostName(0)) }

func (w *world) registered() bool {
	host := w.host()
	return host.Status.Ironic != nil && host.Status.Ironic.ProvisionState != "enroll" && host.Status.Ironic.ProvisionState != "verifying" &&
		condition(host, metal3.RegisteredCondition) == metal3.RegisteredReason
}

func (w *world) gone() bool {
	_, err := w.hosts.Get(context.Background(), enginetest.Namespace, enginetest.HostName(0))
	return err != nil
}

func condition(host *metal3.BareMetalHost, kind string) (reason string) {
	for _, c := range host.Status.Conditions {
		if c.Type == kind {
			return c.Reason
		}
	}
	return ""
}

// TestRefusedByIronic: what Ironic refuses is said in its words, is tried again
// without haste, and needs nobody once Ironic accepts it.
func TestRefusedByIronic(t *testing.T) {
	inSimulation(t, ironicsim.Options{BMCTimeout: time.Second}, func(t *testing.T, w *world) {
		const words = "No valid default inspect interface could be found."
		w.sim.Refuse("CreateNode", 400, words)
		w.secret("secret")
		w.hosts.Add(enrolled(0))
		w.after(2*time.Second, "the refusal is shown", func() bool { return ownWords(w.host()) == words })
		if got := condition(w.host(), metal3.RegisteredCondition); got != metal3.IronicRefusedReason {
			t.Errorf("Registered is %s", got)
		}
		tries := w.sim.Count("CreateNode")
		time.Sleep(2 * time.Minute)
		if more := w.sim.Count("CreateNode") - tries; more < 4 || more > 8 {
			t.Errorf("tried %d times in 2 minutes", more)
		}
		w.sim.Accept("CreateNode")
		took := w.after(30*time.Second, "registered", w.registered)
		t.Logf("registered %s after Ironic accepted it", took)
		if message := w.host().Status.ErrorMessage; message != "" {
			t.Errorf("the error stays: %s", message)
		}
	})
}

// TestPortConflict: a MAC address that another node has is free again when that node goes; that of another host is told
// with both.
func TestPortConflict(t *testing.T) {
	inSimulation(t, ironicsim.Options{BMCTimeout: time.Second}, func(t *testing.T, w *world) {
		other, err := w.sim.Sim.CreateNode(map[string]any{"name": "rack-7", "driver": "fake-hardware"})
		if err == nil {
			err = w.sim.Sim.CreatePort(other, enrolled(0).Spec.BootMACAddress)
		}
		if err != nil {
			t.Fatal(err)
		}
		says := func(i int, want string) func() bool {
			return func() bool {
				host := w.hosts.Host(t, enginetest.HostName(i))
				return condition(host, metal3.RegisteredCondition) == metal3.PortConflictReason &&
					strings.Contains(host.Status.ErrorMessage, want)
			}
		}
		w.secret("secret")
		w.hosts.Add(enrolled(0))
		w.after(5*time.Second, "the conflict", says(0, "host metal3/worker-0 is that of a node in Ironic that no host has"))
		time.Sleep(5 * time.Minute)
		if err := w.sim.Sim.LoseNode(other); err != nil {
			t.Fatal(err)
		}
		w.after(30*time.Second, "registered", w.registered)
		second := enrolled(1)
		second.Spec.BootMACAddress = enrolled(0).Spec.BootMACAddress
		w.hosts.Add(second)
		want := "MAC address 00:ab:4f:d8:9e:00 of host metal3/worker-1 is that of host metal3/worker-0 already"
		w.after(5*time.Second, "the conflict", says(1, want))
	})
}

// TestSecretMended: missing, incomplete and wrong credentials each have their own
// message, and mending them is enough.
func TestSecretMended(t *testing.T) {
	inSimulation(t, ironicsim.Options{BMCTimeout: time.Second}, func(t *testing.T, w *world) {
		w.hosts.Add(enrolled(0))
		steps := []struct {
			password, reason, says string
			absent                 bool
		}{
			{absent: true, reason: metal3.SecretNotFoundReason, says: "does not exist"},
			{password: "", reason: metal3.SecretIncompleteReason, says: "has no password"},
			{password: "wrong", reason: metal3.RegisteredReason, says: "IPMI call failed"}, // Ironic has taken it; the BMC has not
		}
		for _, step := range steps {
			if !step.absent {
				w.secret(step.password)
			}
			w.after(5*time.Second, step.reason, func() bool {
				host := w.host()
				return condition(host, metal3.RegisteredCondition) == step.reason && host.Status.ErrorType == metal3.RegistrationError && strings.Contains(host.Status.ErrorMessage, step.says)
			})
			t.Logf("%s: %s", step.reason, w.host().Status.ErrorMessage)
		}
		w.secret("secret")
		t.Logf("registered %s after the Secret was mended", w.after(5*time.Second, "registered", w.registered))
	})
}

// redfishHost is the first host, at a BMC that speaks Redfish.
func redfishHost() *metal3.BareMetalHost {
	host := enrolled(0)
	host.Spec.BMC.Address = "redfish://192.168.111.1/redfish/v1/Systems/1"
	return host
}

// TestSilentBMC: a BMC that comes back is found within half a minute, and is not
// hammered until then.
func TestSilentBMC(t *testing.T) {
	inSimulation(t, ironicsim.Options{BMCTimeout: time.Second}, func(t *testing.T, w *world) {
		w.sim.BMC(0).SetDead(true)
		w.secret("secret")
		w.hosts.Add(redfishHost())
		w.after(5*time.Second, "the error is shown", func() bool { return w.host().Status.ErrorType == metal3.RegistrationError })
		tries := w.sim.Count("manage")
		time.Sleep(10 * time.Minute)
		more := w.sim.Count("manage") - tries
		t.Logf("%d tries in 10 minutes", more)
		if more < 20 || more > 40 {
			t.Errorf("%d tries in 10 minutes", more)
		}
		if patches := w.sim.Count("UpdateNode"); patches != 0 {
			t.Errorf("the node was patched %d times, with nothing new to say", patches)
		}
		w.sim.BMC(0).SetDead(false)
		t.Logf("registered %s after the BMC is back", w.after(30*time.Second, "registered", w.registered))
	})
}

// TestRefusedUser: a BMC that refuses its user, or may do so, is asked less and less often, because BMCs lock accounts. A corrected Secret
// is tried at once.
func TestRefusedUser(t *testing.T) {
	for name, tt := range map[string]struct {
		host *metal3.BareMetalHost
		most int // tries in the second hour
	}{
		"Redfish": {redfishHost(), 8},
		"IPMI":    {enrolled(0), 4},
	} {
		t.Run(name, func(t *testing.T) {
			inSimulation(t, ironicsim.Options{BMCTimeout: time.Second}, func(t *testing.T, w *world) {
				w.secret("wrong")
				w.hosts.Add(tt.host)
				w.after(5*time.Second, "the error is shown", func() bool { return w.host().Status.ErrorType == metal3.RegistrationError })
				time.Sleep(time.Hour)
				first := w.sim.Count("manage")
				time.Sleep(time.Hour)
				second := w.sim.Count("manage") - first
				t.Logf("%d tries in the first hour, %d in the second", first, second)
				if first > 12 || second > tt.most {
					t.Errorf("%d tries in the first hour, %d in the second", first, second)
				}
				w.secret("secret")
				w.after(5*time.Second, "registered", w.registered)
			})
		})
	}
}

// TestDeleteWithoutIronic: a host goes once its node is gone, however long Ironic
// is away; one whose node is gone already goes at once.
func TestDeleteWithoutIronic(t *testing.T) {
	inSimulation(t, ironicsim.Options{BMCTimeout: time.Second}, func(t *testing.T, w *world) {
		w.secret("secret")
		w.hosts.Add(enrolled(0))
		w.after(10*time.Second, "registered", w.registered)
		w.sim.SetAway(true)
		w.hosts.Remove(t, enginetest.HostName(0))
		time.Sleep(10 * time.Minute)
		if w.gone() || len(w.sim.Sim.NodeUUIDs()) != 1 {
			t.Fatal("the host is gone, its node is not")
		}
		w.sim.SetAway(false)
		t.Logf("deleted %s after Ironic is back", w.after(35*time.Second, "deleted", w.gone))
		if left := w.sim.Sim.NodeUUIDs(); len(left) != 0 {
			t.Errorf("Ironic still has %v", left)
		}

		w.hosts.Add(enrolled(0))
		w.after(10*time.Second, "registered", w.registered)
		w.sim.Sim.LoseAllNodes()
		w.hosts.Remove(t, enginetest.HostName(0))
		t.Logf("deleted %s with its node gone", w.after(5*time.Second, "deleted", w.gone))
	})
}

// TestUnreachableIronic: after a minute of silence each host says so, and says
// the contrary when it is over.
func TestUnreachableIronic(t *testing.T) {
	const hosts = 5
	inSimulation(t, ironicsim.Options{BMCTimeout: time.Second}, func(t *testing.T, w *world) {
		w.secret("secret")
		for i := range hosts {
			w.hosts.Add(enrolled(i))
		}
		all := func(reason string) func() bool {
			return func() bool {
				for i := range hosts {
					if condition(w.hosts.Host(t, enginetest.HostName(i)), metal3.IronicReachableCondition) != reason {
						return false
					}
				}
				return true
			}
		}
		w.after(time.Minute, "all registered", func() bool { return w.registered() && all(metal3.ReachableReason)() })
		time.Sleep(time.Minute)
		w.sim.SetAway(true)
		time.Sleep(50 * time.Second)
		if !all(metal3.ReachableReason)() {
			t.Error("a short silence is no outage")
		}
		w.after(30*time.Second, "all hosts say that Ironic is away", all(metal3.UnreachableReason))
		before := w.hosts.Writes()
		time.Sleep(time.Hour)
		if w.hosts.Writes() != before {
			t.Errorf("%d writes in an hour of silence", w.hosts.Writes()-before)
		}
		w.sim.SetAway(false)
		w.after(5*time.Second, "all hosts say that Ironic is back", all(metal3.ReachableReason))
	})
}

// TestQuiet: where nothing changes nothing is written, and Ironic is asked little.
func TestQuiet(t *testing.T) {
	const hosts = 20
	inSimulation(t, ironicsim.Options{BMCTimeout: time.Second}, func(t *testing.T, w *world) {
		w.secret("secret")
		for i := range hosts {
			w.hosts.Add(enrolled(i))
		}
		w.after(5*time.Minute, "all available and on", func() bool {
			for i := range hosts {
				if s := w.hosts.Host(t, enginetest.HostName(i)).Status.Ironic; s == nil || s.ProvisionState != "manageable" || s.PowerState != "power on" {
					return false
				}
			}
			return true
		})
		time.Sleep(2 * time.Minute) // what has just changed is looked at for a while
		version := w.hosts.Writes()
		gets, lists := w.sim.Count("GetNode")+w.sim.Count("GetRegistration"), w.sim.Count("ListNodes")
		feeds := w.sim.Count("ChangedSince")
		time.Sleep(5 * time.Minute)
		moreGets, moreLists := w.sim.Count("GetNode")+w.sim.Count("GetRegistration"), w.sim.Count("ListNodes")
		t.Logf("5 quiet minutes of %d hosts: %d writes; Ironic was asked for the newest %d times, for all %d times, for one %d times",
			hosts, w.hosts.Writes()-version, w.sim.Count("ChangedSince")-feeds, moreLists-lists, moreGets-gets)
		if w.hosts.Writes() != version {
			t.Errorf("%d writes", w.hosts.Writes()-version)
		}
		if moreGets != gets || moreLists-lists > 12 { // every 25 s, so that a deleted node shows within 30
			t.Errorf("asked for single nodes %d times, for all %d times", moreGets-gets, moreLists-lists)
		}
		// And what changes is there for those who watch.
		const said = "said by somebody"
		for _, id := range w.sim.Sim.NodeUUIDs() {
			if err := w.sim.Sim.SetNode(id, map[string]any{"last_error": said}); err != nil {
				t.Fatal(err)
			}
		}
		t.Logf("a change of all reached the hosts after %s", w.after(2*time.Second, "all show it", func() bool {
			for i := range hosts {
				if w.hosts.Host(t, enginetest.HostName(i)).Status.Ironic.LastError != said {
					return false
				}
			}
			return true
		}))
	})
}
