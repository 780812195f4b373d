// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

// bmcAddress is that of the BMC of host number i, of which there is none until giveBMC.
func bmcAddress(i int) string { return fmt.Sprintf("10.0.%d.%d", i/250, i%250+1) }

// giveBMC has the BMC of a host answer.
func (w *world) giveBMC(i int) {
	w.sim.Sim.AddBMC(bmcAddress(i), enginetest.BMCUser, enginetest.BMCPassword)
}

// verifications are when Ironic has begun to verify the BMC of a node, by the node's UUID.
type verifications struct {
	mu     sync.Mutex
	states map[string]string
	began  map[string][]time.Time
}

// note takes an event of the simulator.
func (v *verifications) note(e ironicsim.Event) {
	if e.Node == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if id, state := e.Node.UUID, e.Node.ProvisionState; state != v.states[id] {
		v.states[id] = state
		if state == string(ironic.Verifying) {
			v.began[id] = append(v.began[id], e.At)
		}
	}
}

// withSilentBMCs runs a test in a world with BMCs that are silent, which Ironic notices after timeout.
func withSilentBMCs(t *testing.T, timeout time.Duration, test func(t *testing.T, w *world, verified *verifications)) {
	t.Helper()
	v := &verifications{states: map[string]string{}, began: map[string][]time.Time{}}
	options := ironicsim.Options{Delays: ironicsim.All(time.Millisecond), BMCTimeout: timeout, Trail: v.note}
	inSimulation(t, options, func(t *testing.T, w *world) { test(t, w, v) })
}

// bmcSecrets is how many Secrets the hosts share.
const bmcSecrets = 20

// rewriteSecret writes the Secret of a host anew: what Ironic gets of it is the same.
func (w *world) rewriteSecret(i int) {
	w.t.Helper()
	w.rewrites++
	err := w.secrets.put(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: enginetest.Namespace, Name: fmt.Sprintf("bmc-%d", i%bmcSecrets)},
		Data:       map[string][]byte{"username": []byte("admin"), "password": []byte("secret" + strings.Repeat("\n", w.rewrites))},
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// silence enrolls hosts whose BMCs are silent, and returns when all of them were tried.
func (w *world) silence(hosts int) {
	w.t.Helper()
	for i := range hosts {
		if i < bmcSecrets {
			w.rewriteSecret(i)
		}
		host := enrolled(i)
		host.Spec.BMC.CredentialsName = fmt.Sprintf("bmc-%d", i%bmcSecrets)
		host.Spec.BMC.Address = "redfish://" + bmcAddress(i) + "/redfish/v1/Systems/1"
		host.Spec.BootMACAddress = fmt.Sprintf("00:ab:4f:d8:%02x:%02x", i/256, i%256)
		w.hosts.Add(host)
		time.Sleep(10 * time.Millisecond) // the fake watches buffer few events
	}
	for i := range hosts {
		w.after(10*time.Minute, "host "+enginetest.HostName(i)+" shows its error", func() bool {
			return w.hosts.Host(w.t, enginetest.HostName(i)).Status.ErrorType == metal3.RegistrationError
		})
	}
}

// tries are when the BMCs were asked since then, by node.
func (v *verifications) tries(since time.Time) map[string][]time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	tries := map[string][]time.Time{}
	for id, times := range v.began {
		first, _ := slices.BinarySearchFunc(times, since, time.Time.Compare)
		tries[id] = slices.Clone(times[first:])
	}
	return tries
}

// nodeOf is the UUID of the node of host number i.
func (w *world) nodeOf(i int) string {
	return w.hosts.Host(w.t, enginetest.HostName(i)).Status.Provisioning.ID
}

// crowd returns the most tries that there are within any stretch of such a length.
func crowd(tries map[string][]time.Time, length time.Duration) int {
	var all []time.Time
	for _, times := range tries {
		all = append(all, times...)
	}
	slices.SortFunc(all, time.Time.Compare)
	most, from := 0, 0
	for i := range all {
		for all[i].Sub(all[from]) >= length {
			from++
		}
		most = max(most, i-from+1)
	}
	return most
}

// longestGap is the longest time for which a BMC was not tried between two moments.
func longestGap(tries map[string][]time.Time, from, to time.Time) (gap time.Duration) {
	for _, times := range tries {
		last := from
		for _, at := range append(times, to) {
			gap, last = max(gap, at.Sub(last)), at
		}
	}
	return gap
}

// isBack reports whether a host's BMC was found.
func (w *world) isBack(i int) func() bool {
	return func() bool { return w.hosts.Host(w.t, enginetest.HostName(i)).Status.GoodCredentials.Reference != nil }
}

// TestManySilentBMCs: they are tried in turns, ten in a second, so that none is
// forgotten and Ironic has time for others; and whoever mends or asks need not wait
// for the rest.
func TestManySilentBMCs(t *testing.T) {
	t.Parallel()
	withSilentBMCs(t, time.Second, func(t *testing.T, w *world, verified *verifications) {
		// A thousand do the same, once in 105 s each; that takes a minute of processor time with -race.
		const hosts, period, turn = 400, 90 * time.Second, 60 * time.Second
		w.silence(hosts)
		from := time.Now()
		gets := w.sim.Count("GetNode")
		w.giveBMC(7)
		t.Logf("found %s after it was back", w.after(2*time.Minute, "BMC 7 is found", w.isBack(7)))
		time.Sleep(period - time.Since(from))
		tries := verified.tries(from)
		delete(tries, w.nodeOf(7))
		after := w.sim.Count("GetNode")
		second, minute, gap := crowd(tries, time.Second), crowd(tries, time.Minute), longestGap(tries, from, time.Now())
		t.Logf("most in a second %d, in a minute %d; longest without a try: %s; %d GETs of nodes", second, minute, gap, after-gets)
		if second > 20 || minute > 610 {
			t.Errorf("%d tries in a second, %d in a minute", second, minute)
		}
		if gap > turn {
			t.Errorf("a BMC was not tried for %s", gap)
		}
		if after-gets > 5*10*int(period.Seconds()+1) { // two by the try, and as it begins and ends one by who follows Ironic's feed
			t.Errorf("%d GETs of nodes in %s", after-gets, period)
		}

		for name, mend := range map[string]func(i int){
			"/retry": func(i int) {
				w.hosts.EditStatus(t, enginetest.HostName(i), func(h *metal3.BareMetalHost) { h.Status.ErrorCount = 0 })
			},
			"the Secret": w.rewriteSecret,
			"the spec": func(i int) {
				w.hosts.Edit(t, enginetest.HostName(i), func(h *metal3.BareMetalHost) { h.Spec.Description = "mended" })
			},
		} {
			i := w.justTried(verified, hosts)
			w.giveBMC(i)
			mend(i)
			t.Logf("found %s after %s was changed", w.after(3*time.Second, "the BMC is found", w.isBack(i)), name)
		}
	})
}

// justTried returns a host whose turn it is not in the next seconds.
func (w *world) justTried(verified *verifications, hosts int) int {
	w.t.Helper()
	tries := verified.tries(time.Now().Add(-8 * time.Second))
	for i := range hosts {
		if times := tries[w.nodeOf(i)]; !w.isBack(i)() && len(times) > 0 && time.Since(times[0]) > 4*time.Second {
			return i
		}
	}
	w.t.Fatal("no host was tried in the last seconds")
	return 0
}

// TestHungBMCs: each keeps one of Ironic's workers busy until its time-out, so only
// so many are tried at a time.
func TestHungBMCs(t *testing.T) {
	t.Parallel()
	const hosts, timeout = 120, 60 * time.Second
	withSilentBMCs(t, timeout, func(t *testing.T, w *world, verified *verifications) {
		w.silence(hosts)
		time.Sleep(3 * time.Minute)
		from := time.Now()
		time.Sleep(10 * time.Minute)
		tries := verified.tries(from)
		atOnce, gap := crowd(tries, timeout), longestGap(tries, from, time.Now())
		t.Logf("most at a time %d; longest without a try: %s", atOnce, gap)
		if atOnce > 50 {
			t.Errorf("%d tries at a time", atOnce)
		}
		if gap > 4*time.Minute { // three turns, and a wait
			t.Errorf("a BMC was not tried for %s", gap)
		}
	})
}

// TestRefusedCommand: who refuses one command of IPMI refuses it again, and each try switches the machine off. So the pauses grow, whereas a
// BMC that is silent may be back at any moment.
func TestRefusedCommand(t *testing.T) {
	for command, refused := range map[string]bool{
		"raw 0x00 0x08 0x03 0x08": true, "power off": false,
	} {
		t.Run(command, func(t *testing.T) {
			inSimulation(t, ironicsim.Options{}, func(t *testing.T, w *world) {
				const tries = 5
				w.failTimes(tries, "inspect", "Failed to inspect hardware. Reason: unable to start inspection: IPMI call failed: "+command+".")
				w.secret("secret")
				w.hosts.Add(enrolled(0))
				took := w.after(2*time.Hour, "it is inspected", w.in(metal3.StateAvailable))
				if refused && took < 15*time.Minute || !refused && took > 4*time.Minute {
					t.Errorf("after %d failures, it is inspected after %s", tries, took)
				}
			})
		})
	}
}

// TestBMCWithoutAccess: a BMC with which no TLS connection is possible has one when somebody has changed something, so it is tried less and less
// often, but not so seldom that a correction at the BMC, which nothing tells, is found only the next day. A silent one may be back at any
// moment.
func TestBMCWithoutAccess(t *testing.T) {
	const connection = "Redfish connection failed for node n: Unable to connect to https://192.168.111.1. Error: "
	for name, test := range map[string]struct {
		says             string
		least, most      int // tries in an hour
		noticed, changed time.Duration
	}{
		"no TLS": {connection + "(Caused by SSLError(SSLError(1, '[SSL] record layer failure (_ssl.c:1006)')))", 5, 12, 16 * time.Minute, 3 * time.Second},
		"silent": {connection + "(Caused by ConnectTimeoutError('timed out'))", 150, 230, 25 * time.Second, 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inSimulation(t, ironicsim.Options{}, func(t *testing.T, w *world) {
				w.failTimes(math.MaxInt32, "verify", test.says)
				w.secret("secret")
				w.hosts.Add(enrolled(0))
				time.Sleep(time.Hour)
				tried := w.sim.Count("manage")
				if tried < test.least || tried > test.most {
					t.Errorf("%d tries in an hour", tried)
				}
				w.editSpec(func(s *metal3.BareMetalHostSpec) { s.Description = "another" })
				if took := w.after(time.Hour, "it is tried", func() bool { return w.sim.Count("manage") > tried }); took > test.changed {
					t.Errorf("after the spec has changed, it is tried after %s", took)
				}
				time.Sleep(time.Minute)
				w.sim.Intercept(nil)
				if took := w.after(time.Hour, "it is registered", w.registered); took > test.noticed {
					t.Errorf("a correction at the BMC is noticed after %s", took)
				}
			})
		})
	}
}
