// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/reconcile"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

// inSimulatedFleet runs a test of many hosts in a bubble, with a controller between them and a simulated Ironic.
func inSimulatedFleet(t *testing.T, settings reconcile.Settings, options ironicsim.Options, test func(t *testing.T, w *world)) {
	t.Helper()
	inFleet(t, settings, options, func(sim *enginetest.Ironic) ironicClient { return sim }, test)
}

// inFleet is inSimulatedFleet with what wrap makes of Ironic's client.
func inFleet(t *testing.T, settings reconcile.Settings, options ironicsim.Options, wrap func(*enginetest.Ironic) ironicClient, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newSimulatedWorld(t, options)
		ctx, cancel := context.WithCancel(t.Context())
		w.secrets.fuse = &fuse{kill: cancel}
		w.run(ctx, cancel, w.hosts, wrap(w.sim), settings)
		defer func() { w.stop() }()
		test(t, w)
	})
}

// fleetSettings are those of an ordinary installation.
func fleetSettings() reconcile.Settings {
	return reconcile.Settings{BMCs: anywhere, Images: anywhere, MaxProvisioningRetries: 3, Workers: 8, PollInterval: time.Second}
}

// enrolledIn is a host of a namespace, with the MAC address number.
func enrolledIn(namespace, name string, number int) *metal3.BareMetalHost {
	host := enrolled(number)
	host.Namespace, host.Name = namespace, name
	host.Spec.BMC.Address = fmt.Sprintf("ipmi://192.168.%d.%d", 111+number/200, number%200+1)
	host.Spec.BootMACAddress = fmt.Sprintf("00:ab:4f:d8:%02x:%02x", number/256, number%256)
	return host
}

// enrol adds n hosts to a namespace, one after the other, each with a Secret of its
// own: a change of one Secret has all hosts planned anew that share it.
func (w *world) enrol(namespace string, n int) (keys []types.NamespacedName) {
	w.hosts.Mu.Lock()
	before := len(w.hosts.ByName)
	w.hosts.Mu.Unlock()
	for i := range n {
		host := enrolledIn(namespace, fmt.Sprintf("%s-%d", namespace, i), before+i)
		w.addWithSecret(host)
		keys = append(keys, enginetest.KeyOf(host))
	}
	return keys
}

func (w *world) addWithSecret(host *metal3.BareMetalHost) {
	w.t.Helper()
	host.Spec.BMC.CredentialsName = host.Name + "-bmc"
	w.putCredentials(host.Namespace, host.Spec.BMC.CredentialsName)
	const pause = 25 * time.Millisecond // for the watches, which buffer few events
	time.Sleep(pause)
	w.hosts.Add(host)
	time.Sleep(pause)
}

func (w *world) putCredentials(namespace, name string) {
	w.t.Helper()
	err := w.secrets.put(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Data:       map[string][]byte{"username": []byte("admin"), "password": []byte("secret")},
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// hostOf is a host; nil when it is gone.
func (w *world) hostOf(key types.NamespacedName) *metal3.BareMetalHost {
	host, err := w.hosts.Get(context.Background(), key.Namespace, key.Name)
	if err != nil {
		return nil
	}
	return host
}

// all reports whether something is so of all hosts.
func (w *world) all(keys []types.NamespacedName, is func(*metal3.BareMetalHost) bool) func() bool {
	return func() bool { return w.count(keys, is) == len(keys) }
}

// count asks that of the hosts themselves: copies would take most of a test's time.
func (w *world) count(keys []types.NamespacedName, is func(*metal3.BareMetalHost) bool) (n int) {
	w.hosts.Mu.Lock()
	defer w.hosts.Mu.Unlock()
	for _, key := range keys {
		if host := w.hosts.ByName[key]; host != nil && is(host) {
			n++
		}
	}
	return n
}

// arrived reports whether a host is in a state, and all is well.
func arrived(state metal3.ProvisioningState) func(*metal3.BareMetalHost) bool {
	return func(host *metal3.BareMetalHost) bool {
		return host.Status.Provisioning.State == state && host.Status.OperationalStatus == metal3.OperationalStatusOK && host.Status.PoweredOn == host.Spec.Online
	}
}

func isDelayed(host *metal3.BareMetalHost) bool {
	return host.Status.OperationalStatus == metal3.OperationalStatusDelayed
}

// onRecord has each host looked at that is recorded from now on.
func (w *world) onRecord(look func(*metal3.BareMetalHost)) {
	w.hosts.Mu.Lock()
	defer w.hosts.Mu.Unlock()
	w.hosts.Recorded = func(_, host *metal3.BareMetalHost) { look(host) }
}

// edit changes a host as its user does, unless it is gone.
func (w *world) edit(key types.NamespacedName, change func(*metal3.BareMetalHost)) {
	w.t.Helper()
	w.hosts.Mu.Lock()
	defer w.hosts.Mu.Unlock()
	host := w.hosts.Stored(key).DeepCopy()
	if host == nil {
		return
	}
	change(host)
	host.Generation++
	if _, err := w.hosts.Swap(host); err != nil {
		w.t.Fatal(err)
	}
}
