// SPDX-License-Identifier: Apache-2.0

package security

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

const (
	// hanging is how many hosts a tenant has whose BMCs or image servers accept connections and never answer.
	hanging = 100
	// cycles is how often something is done for another tenant's host beside them.
	cycles = 8
)

// hangingTest is what a tenant does to others, and what another one does meanwhile.
type hangingTest struct {
	// host changes the spec of the hosts of both; nil for those that are available.
	host func(*metal3.BareMetalHostSpec)
	// attack begins the attack by the hosts attacker-0 and so on. silent accepts connections and never answers.
	attack func(t *testing.T, ctx context.Context, ns string, silent *silentServer)
	// held is how many connections hang at least.
	held int
	// cycle does something for the host named victim, and ends as it began. images is the URL of a server that answers.
	cycle func(t *testing.T, ctx context.Context, ns string, images string)
}

// TestHangingImageServers: a tenant has a hundred hosts deploy images from a server that never answers. Ironic looks for each
// image before it answers the validation, and again before it answers the request of the deployment.
func TestHangingImageServers(t *testing.T) {
	attack(t, "write hosts in one namespace; 100 image servers that never answer", "make reads stale, delay another's deployments")
	hangingTest{
		attack: func(t *testing.T, ctx context.Context, ns string, silent *silentServer) {
			for i := range hanging {
				setImage(t, ctx, ns, attacker(i), &metal3.Image{URL: silent.url() + "/image.qcow2", Checksum: unusedChecksum})
			}
		},
		held: 2,
		cycle: func(t *testing.T, ctx context.Context, ns, images string) {
			setImage(t, ctx, ns, "victim", &metal3.Image{URL: images + "/image.qcow2", Checksum: unusedChecksum})
			waitHost(t, ctx, ns, "victim", "provisioned", func(h *metal3.BareMetalHost) bool { return h.Status.Provisioning.State == metal3.StateProvisioned })
			setImage(t, ctx, ns, "victim", nil)
			waitHost(t, ctx, ns, "victim", "available", isAvailable)
		},
	}.run(t)
}

// TestHangingSubscriptions: a tenant has a hundred subscriptions to the events of BMCs that never answer. Ironic asks a BMC before
// it answers.
func TestHangingSubscriptions(t *testing.T) {
	attack(t, "write subscriptions in one namespace; BMCs that never answer", "make reads stale, delay another's subscriptions")
	subscribe := func(t *testing.T, ctx context.Context, ns, host string) {
		t.Helper()
		subscription := &metal3.BMCEventSubscription{ObjectMeta: metav1.ObjectMeta{Name: host}, Spec: metal3.BMCEventSubscriptionSpec{
			HostName: host, Destination: "http://192.0.2.1/events",
		}}
		if _, err := s.Metal3.Metal3V1alpha1().BMCEventSubscriptions(ns).Create(ctx, subscription, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	hangingTest{
		host: isOff,
		attack: func(t *testing.T, ctx context.Context, ns string, silent *silentServer) {
			silence(t, ctx, ns, silent, func(int) bool { return true })
			for i := range hanging {
				subscribe(t, ctx, ns, attacker(i))
			}
		},
		held: 2,
		cycle: func(t *testing.T, ctx context.Context, ns, _ string) {
			subscriptions := s.Metal3.Metal3V1alpha1().BMCEventSubscriptions(ns)
			subscribe(t, ctx, ns, "victim")
			eventually(t, ctx, func() string {
				is, err := subscriptions.Get(ctx, "victim", metav1.GetOptions{})
				if err != nil || is.Status.SubscriptionID == "" {
					return fmt.Sprintf("no subscription yet: %+v, %v", is.Status, err)
				}
				return ""
			})
			if err := subscriptions.Delete(ctx, "victim", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			eventually(t, ctx, func() string {
				if _, err := subscriptions.Get(ctx, "victim", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
					return fmt.Sprintf("the subscription is not gone: %v", err)
				}
				return ""
			})
		},
	}.run(t)
}

// TestHangingDataImages: a tenant has a hundred hosts switched on with DataImages. The BMCs of half of them never answer when Ironic
// asks what is in the drive; the image server of the others never answers, which occupies workers of Ironic's.
func TestHangingDataImages(t *testing.T) {
	attack(t, "write data images in one namespace; servers that never answer", "make reads stale, delay another's drives")
	put := func(t *testing.T, ctx context.Context, ns, host, url string) {
		t.Helper()
		images := s.Metal3.Metal3V1alpha1().DataImages(ns)
		image := &metal3.DataImage{ObjectMeta: metav1.ObjectMeta{Name: host}, Spec: metal3.DataImageSpec{URL: url}}
		_, err := images.Create(ctx, image, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			_, err = images.Patch(ctx, host, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"url":%q}}`, url), metav1.PatchOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	hangingTest{
		host: isOff,
		attack: func(t *testing.T, ctx context.Context, ns string, silent *silentServer) {
			silence(t, ctx, ns, silent, func(i int) bool { return i%2 == 0 })
			for i := range hanging {
				put(t, ctx, ns, attacker(i), silent.url()+"/data.iso")
				setOnline(t, ctx, ns, attacker(i), true)
			}
		},
		held: 10,
		cycle: func(t *testing.T, ctx context.Context, ns, images string) {
			put(t, ctx, ns, "victim", fmt.Sprintf("%s/%d.iso", images, time.Now().UnixNano()))
			setOnline(t, ctx, ns, "victim", true)
			waitHost(t, ctx, ns, "victim", "on", func(h *metal3.BareMetalHost) bool { return h.Status.PoweredOn })
			setOnline(t, ctx, ns, "victim", false)
			waitHost(t, ctx, ns, "victim", "off", func(h *metal3.BareMetalHost) bool { return !h.Status.PoweredOn })
		},
	}.run(t)
}

// TestHangingActions: a tenant keeps asking a hundred BMCs that never answer what their machines boot from.
func TestHangingActions(t *testing.T) {
	attack(t, "create actions in one namespace; BMCs that never answer", "make reads stale, delay another's actions")
	ask := func(ctx context.Context, ns, host string) error {
		return s.Metal3.Metal3V1alpha1().RESTClient().Get().Namespace(ns).Resource("baremetalhosts").Name(host).SubResource("bootdevice").Do(ctx).Error()
	}
	hangingTest{
		host: isOff,
		attack: func(t *testing.T, ctx context.Context, ns string, silent *silentServer) {
			silence(t, ctx, ns, silent, func(int) bool { return true })
			ctx, stop := context.WithCancel(ctx)
			var users sync.WaitGroup
			t.Cleanup(func() { stop(); users.Wait() })
			for i := range hanging {
				users.Go(func() {
					for ctx.Err() == nil {
						_ = ask(ctx, ns, attacker(i)) // it does not answer
					}
				})
			}
		},
		held: 2,
		cycle: func(t *testing.T, ctx context.Context, ns, _ string) {
			for range 10 {
				if err := ask(ctx, ns, "victim"); err != nil {
					t.Error(err)
				}
			}
		},
	}.run(t)
}

// TestHangingBMCs: the BMCs of a tenant's hundred hosts stop answering when Ironic is to verify them, or to switch the machines on,
// which occupies its workers.
func TestHangingBMCs(t *testing.T) {
	attack(t, "write hosts in one namespace; 100 BMCs that never answer", "make reads stale, delay another's registrations and power")
	deployed := func(t *testing.T, ctx context.Context, ns, _ string) {
		setOnline(t, ctx, ns, "victim", true)
		waitHost(t, ctx, ns, "victim", "on", func(h *metal3.BareMetalHost) bool { return h.Status.PoweredOn })
		setOnline(t, ctx, ns, "victim", false)
		waitHost(t, ctx, ns, "victim", "off", func(h *metal3.BareMetalHost) bool { return !h.Status.PoweredOn })
	}
	t.Run("verified", func(t *testing.T) {
		hangingTest{
			host: isOff,
			attack: func(t *testing.T, ctx context.Context, ns string, silent *silentServer) {
				for i := range hanging {
					address := redfishAddress()
					simulator(t).AddBMC(address, "admin", "secret").SetURL(silent.url())
					createHost(t, ctx, ns, fmt.Sprint("new-", i), address, "bmc", isOff)
				}
			},
			held:  40,
			cycle: deployed,
		}.run(t)
	})
	t.Run("switched on", func(t *testing.T) {
		hangingTest{
			host: isOff,
			attack: func(t *testing.T, ctx context.Context, ns string, silent *silentServer) {
				silence(t, ctx, ns, silent, func(int) bool { return true })
				for i := range hanging {
					setOnline(t, ctx, ns, attacker(i), true)
				}
			},
			held:  40,
			cycle: deployed,
		}.run(t)
	})
}

func attacker(i int) string { return fmt.Sprint("attacker-", i) }

// isOff is a host that was deployed before, and is off.
func isOff(spec *metal3.BareMetalHostSpec) { spec.ExternallyProvisioned, spec.Online = true, false }

// redfishAddress returns the address of a BMC, which no test has used before.
func redfishAddress() string {
	return fmt.Sprintf("redfish+http://127.0.0.1:%d/redfish/v1/Systems/1", 30000+redfishBMCs.Add(1))
}

var redfishBMCs atomic.Int32

// silence has those of the attacker's BMCs never answer.
func silence(t *testing.T, ctx context.Context, ns string, silent *silentServer, which func(i int) bool) {
	t.Helper()
	for i := range hanging {
		host, err := s.Hosts(ns).Get(ctx, attacker(i), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if which(i) {
			simulator(t).BMC(host.Spec.BMC.Address).SetURL(silent.url())
		}
	}
}

// endSilence has all BMCs of a namespace answer again. Otherwise, the server would go on trying them beside the tests that follow.
func endSilence(t *testing.T, ctx context.Context, ns string) {
	hosts, err := s.Hosts(ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Error(err)
		return
	}
	for _, host := range hosts.Items {
		simulator(t).BMC(host.Spec.BMC.Address).SetURL("")
	}
}

// run has another tenant do something during the attack, and reads that tenant's hosts meanwhile: it is done before the attacker's
// hosts have all been tried once more, each of which takes as long as it is waited for an answer.
func (h hangingTest) run(t *testing.T) {
	sim := simulator(t)
	ctx, ns := s.Begin(t)
	victim := makeNamespace(t, ctx, "victim-")
	images := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(images.Close)
	silent := newSilentServer(t)
	change, isReady := func(*metal3.BareMetalHostSpec) {}, isAvailable
	if h.host != nil {
		change = h.host
		isReady = func(h *metal3.BareMetalHost) bool {
			return h.Status.Provisioning.State == metal3.StateExternallyProvisioned && !h.Status.PoweredOn
		}
	}
	add := func(ns, name string) {
		address := redfishAddress()
		sim.AddBMC(address, "admin", "secret")
		createHost(t, ctx, ns, name, address, "bmc", change)
	}
	for _, ns := range []string{ns, victim} {
		s.CreateSecret(t, ctx, ns, "bmc", map[string]string{"username": "admin", "password": "secret"})
	}
	add(victim, "victim")
	add(victim, "read")
	for i := range hanging {
		add(ns, attacker(i))
	}
	for i := range hanging {
		waitHost(t, ctx, ns, attacker(i), "ready", isReady)
	}
	waitHost(t, ctx, victim, "victim", "ready", isReady)
	read := waitHost(t, ctx, victim, "read", "ready", isReady).Status.Provisioning.ID

	t.Cleanup(func() { endSilence(t, context.WithoutCancel(ctx), ns) })
	h.attack(t, ctx, ns, silent)
	eventually(t, ctx, func() string { return silent.expectHeld(h.held) })
	t.Logf("%d connections hang", silent.count())
	stop := keepReading(t, ctx, victim, "read", read)
	defer stop()
	var tried []int
	for range cycles {
		before := silent.acceptedSoFar()
		h.cycle(t, ctx, victim, images.URL)
		tried = append(tried, silent.acceptedSoFar()-before)
	}
	t.Logf("during the cycles of another tenant, the attacker's hosts were tried %v times", tried)
	// How often depends on how long the cycles take, because what hangs ends in time. Who waits for one that hangs while others wait,
	// too, would see them tried before it.
	if most := slices.Max(tried); most >= hanging {
		t.Errorf("during a cycle of another tenant, the attacker's %d hosts were tried %d times", hanging, most)
	}
	before := silent.acceptedSoFar()
	eventually(t, ctx, func() string { // it goes on, more rarely, because what fails is tried after longer and longer pauses
		if silent.acceptedSoFar() == before {
			return "the attacker's hosts are tried no more"
		}
		return ""
	})
}

// unusedChecksum is a checksum of which nobody looks whether it is right.
const unusedChecksum = "d41d8cd98f00b204e9800998ecf8427e"

func setImage(t *testing.T, ctx context.Context, ns, name string, image *metal3.Image) {
	t.Helper()
	setSpec(t, ctx, ns, name, func(spec *metal3.BareMetalHostSpec) { spec.Image = image })
}

func setOnline(t *testing.T, ctx context.Context, ns, name string, online bool) {
	t.Helper()
	setSpec(t, ctx, ns, name, func(spec *metal3.BareMetalHostSpec) { spec.Online = online })
}

func setSpec(t *testing.T, ctx context.Context, ns, name string, change func(*metal3.BareMetalHostSpec)) {
	t.Helper()
	eventually(t, ctx, func() string {
		host, err := s.Hosts(ns).Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			change(&host.Spec)
			_, err = s.Hosts(ns).Update(ctx, host, metav1.UpdateOptions{})
		}
		if err != nil {
			return err.Error()
		}
		return ""
	})
}

// keepReading reads a host again and again, each time after Ironic has said something new about its node.
func keepReading(t *testing.T, ctx context.Context, ns, name, node string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	var reader sync.WaitGroup
	reader.Go(func() {
		reads := 0
		for ctx.Err() == nil {
			news := fmt.Sprint("news at ", time.Now().UnixNano())
			if err := simulator(t).SetNode(node, map[string]any{"last_error": news}); err != nil {
				t.Error(err)
				return
			}
			host, err := s.Hosts(ns).Get(ctx, name, metav1.GetOptions{})
			if ctx.Err() != nil {
				break
			}
			reads++
			switch {
			case err != nil:
				t.Error("a read of another tenant: ", err)
			case host.Status.Ironic == nil || host.Status.Ironic.LastError != news:
				t.Errorf("a read of another tenant is stale: %+v, want %s", host.Status.Ironic, news)
			}
		}
		t.Logf("%d reads were live", reads)
	})
	return func() { cancel(); reader.Wait() }
}
