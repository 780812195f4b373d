// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/generated/clientset/versioned"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

var hostResource = metal3.SchemeGroupVersion.WithResource("baremetalhosts")

// idleHost makes a host that is paused and has no BMC: what clients write is all
// that ever changes in it.
func idleHost(t *testing.T, ctx context.Context, ns, name string, change ...func(*metal3.BareMetalHost)) *metal3.BareMetalHost {
	t.Helper()
	host := &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{
		Name: name, Annotations: map[string]string{metal3.PausedAnnotation: "contract"},
	}}
	for _, c := range change {
		c(host)
	}
	created, err := s.Hosts(ns).Create(ctx, host, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created
}

func withLabel(key, value string) func(*metal3.BareMetalHost) {
	return func(h *metal3.BareMetalHost) { metav1.SetMetaDataLabel(&h.ObjectMeta, key, value) }
}

// managedHost makes a host with a BMC of its own, which is neither inspected nor
// cleaned, so that it is available at once. change has the last word.
func managedHost(t *testing.T, ctx context.Context, ns, name string, change ...func(*metal3.BareMetalHost)) *metal3.BareMetalHost {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name + "-bmc"}, StringData: map[string]string{"username": "admin", "password": "password"}}
	if _, err := s.Core.CoreV1().Secrets(ns).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	address := s.ironic.NewBMC("admin", "password")
	port, err := strconv.Atoi(address[strings.LastIndex(address, ":")+1:])
	if err != nil {
		t.Fatal(err)
	}
	host := &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: metal3.BareMetalHostSpec{
		Online: true, BMC: metal3.BMCDetails{Address: address, CredentialsName: secret.Name},
		BootMACAddress: fmt.Sprintf("52:54:00:c0:%02x:%02x", port>>8&0xff, port&0xff),
		InspectionMode: metal3.InspectionModeDisabled, AutomatedCleaningMode: metal3.CleaningModeDisabled,
	}}
	for _, c := range change {
		c(host)
	}
	created, err := s.Hosts(ns).Create(ctx, host, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created
}

// hostIs waits until a host is as wanted.
func hostIs(t *testing.T, ctx context.Context, ns, name, what string, wanted func(*metal3.BareMetalHost) bool) *metal3.BareMetalHost {
	t.Helper()
	return s.WaitHost(t, ctx, ns, name, what, wanted)
}

// isGone waits until a host is gone.
func isGone(t *testing.T, ctx context.Context, ns, name string) {
	t.Helper()
	comes(t, ctx, func() string {
		host, err := s.Hosts(ns).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return ""
		}
		return fmt.Sprintf("host %s/%s is not gone: %v, finalizers %v, state %q", ns, name, err, host.Finalizers, host.Status.Provisioning.State)
	})
}

// isAvailable reports whether a host can be claimed and its power is as it is to be.
func isAvailable(h *metal3.BareMetalHost) bool {
	return h.Status.Provisioning.State == metal3.StateAvailable && h.Status.ErrorMessage == "" && h.Status.PoweredOn == h.Spec.Online
}

// comes waits until check has nothing to complain about.
func comes(t *testing.T, ctx context.Context, check func() string) {
	t.Helper()
	testbed.Eventually(t, ctx, check)
}

// change is one event as whoever watches is told it.
type change struct {
	Type          watch.EventType
	Name, Version string
}

// journal has the changes that a watch or an informer was told, in order.
type journal struct {
	mu   sync.Mutex
	kept []change
}

func (j *journal) add(kind watch.EventType, obj any) {
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj // a new list shows that it is gone, and not how it was at last
	}
	object, err := meta.Accessor(obj)
	if err != nil {
		return // a Status
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.kept = append(j.kept, change{kind, object.GetName(), object.GetResourceVersion()})
}

func (j *journal) changes() []change {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]change(nil), j.kept...)
}

func clientFor(t *testing.T, config *rest.Config) versioned.Interface {
	t.Helper()
	client, err := versioned.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}
