// SPDX-License-Identifier: Apache-2.0

package hostclaim

import (
	"context"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
)

// world is a claim of the namespace tenant, and the hosts and Secrets of the namespace racks.
type world struct {
	claim    *metal3.HostClaim // nil if it does not exist
	hosts    map[string]*metal3.BareMetalHost
	secrets  map[string]string // NAMESPACE/NAME -> of which Secret it is a copy; empty if it is none
	hardware map[string]*metal3.HardwareData
	events   enginetest.Events
	claims   *enginetest.Slot[*metal3.HostClaim]
	version  int
	// beforeUpdate is called before a host is written, as if somebody were faster.
	beforeUpdate func(*metal3.BareMetalHost)
	hostError    error
	secretError  error
	// beforeCopy is called before each copy of a Secret.
	beforeCopy func()
	controller *Controller
}

var claimKey = types.NamespacedName{Namespace: "tenant", Name: "mine"}

// newWorld has a claim that nothing was done for yet, and one free host that it may have.
func newWorld(t *testing.T) *world {
	w := &world{
		claim: &metal3.HostClaim{ObjectMeta: metav1.ObjectMeta{Namespace: claimKey.Namespace, Name: claimKey.Name, UID: "uid", ResourceVersion: "1", Generation: 1}},
		hosts: map[string]*metal3.BareMetalHost{}, secrets: map[string]string{}, hardware: map[string]*metal3.HardwareData{}, version: 1,
	}
	var err error
	w.claims = &enginetest.Slot[*metal3.HostClaim]{Resource: "hostclaims", Object: &w.claim}
	w.controller, err = New(Deps{
		Claims: w.claims, Policies: enginetest.NoObjects{}, Hosts: hostStore{w}, Hardware: hardwareStore{w}, Secrets: secretStore{w}, Fence: ironic.NoFence, Events: &w.events, Clock: clock.RealClock{},
		OnHostChange: func(func(old, host *metal3.BareMetalHost)) (func() bool, error) {
			return func() bool { return true }, nil // the test tells of hosts itself
		},
		ClaimNamespaces: cache.NewSharedIndexInformer(&cache.ListWatch{}, &metav1.PartialObjectMetadata{}, 0, nil),
	})
	if err != nil {
		t.Fatal(err)
	}
	w.controller.policyChanged(nil, &metal3.HostDeployPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "racks", Name: "tenants"}, Spec: metal3.HostDeployPolicySpec{
		HostClaimNamespaces: &metal3.HostClaimNamespaces{Names: []string{"tenant"}},
	}})
	w.put(freeHost("racks", "worker-0", nil))
	return w
}

// put records a host, which the controller is told.
func (w *world) put(host *metal3.BareMetalHost) *metal3.BareMetalHost {
	w.version++
	host.ResourceVersion = strconv.Itoa(w.version)
	w.hosts[host.Name] = host
	w.controller.hostChanged(nil, host.DeepCopy())
	return host
}

// host returns the recorded host worker-0.
func (w *world) host() *metal3.BareMetalHost { return w.hosts["worker-0"] }

// reconcile reconciles the claim some times, and returns the last error.
func (w *world) reconcile(t *testing.T) error {
	t.Helper()
	var err error
	for range 3 {
		_, err = w.controller.reconcile(t.Context(), claimKey)
	}
	return err
}

// mustReconcile reconciles the claim without an error.
func (w *world) mustReconcile(t *testing.T) {
	t.Helper()
	if err := w.reconcile(t); err != nil {
		t.Fatal(err)
	}
}

// deploy has the host run what its claim asks for, as the controller of hosts does.
func (w *world) deploy() {
	host := w.host()
	host.Status.Provisioning.State, host.Status.PoweredOn = metal3.StateProvisioned, true
	if host.Spec.Image != nil {
		host.Status.Provisioning.Image = *host.Spec.Image.DeepCopy()
	}
	w.put(host)
}

// deprovision has the host run nothing.
func (w *world) deprovision() {
	host := w.host()
	host.Status.Provisioning.State, host.Status.Provisioning.Image = metal3.StateAvailable, metal3.Image{}
	w.put(host)
}

// has returns the status and reason of a condition of the claim.
func (w *world) has(kind string) string {
	if c := meta.FindStatusCondition(w.claim.Status.Conditions, kind); c != nil {
		return string(c.Status) + " " + c.Reason
	}
	return ""
}

func (w *world) delete() { w.claim.DeletionTimestamp = new(metav1.Now()) }

type hostStore struct{ *world }

func (h hostStore) Get(_ context.Context, namespace, name string) (*metal3.BareMetalHost, error) {
	host := h.hosts[name]
	if host == nil || host.Namespace != namespace {
		return nil, apierrors.NewNotFound(metal3.Resource("baremetalhosts"), name)
	}
	return host.DeepCopy(), nil
}

func (h hostStore) Update(_ context.Context, host *metal3.BareMetalHost) (*metal3.BareMetalHost, error) {
	if h.beforeUpdate != nil {
		h.beforeUpdate(h.hosts[host.Name])
	}
	switch stored := h.hosts[host.Name]; {
	case h.hostError != nil:
		return nil, h.hostError
	case stored == nil:
		return nil, apierrors.NewNotFound(metal3.Resource("baremetalhosts"), host.Name)
	case stored.ResourceVersion != host.ResourceVersion:
		return nil, apierrors.NewConflict(metal3.Resource("baremetalhosts"), host.Name, nil)
	}
	return h.put(host.DeepCopy()).DeepCopy(), nil
}

type hardwareStore struct{ *world }

func (h hardwareStore) Get(_ context.Context, namespace, name string) (*metal3.HardwareData, error) {
	if data := h.hardware[namespace+"/"+name]; data != nil {
		return data.DeepCopy(), nil
	}
	return nil, apierrors.NewNotFound(metal3.Resource("hardwaredata"), name)
}

func (h hardwareStore) Create(_ context.Context, data *metal3.HardwareData) (*metal3.HardwareData, error) {
	h.hardware[data.Namespace+"/"+data.Name] = data
	return data, nil
}

func (h hardwareStore) Update(ctx context.Context, data *metal3.HardwareData) (*metal3.HardwareData, error) {
	return h.Create(ctx, data)
}

type secretStore struct{ *world }

func (s secretStore) Copy(_ context.Context, from, to types.NamespacedName, _ map[string]string, _ metav1.OwnerReference) error {
	if s.beforeCopy != nil {
		s.beforeCopy()
	}
	if s.secretError != nil {
		return s.secretError
	}
	if _, exists := s.secrets[from.String()]; !exists {
		return apierrors.NewNotFound(corev1.Resource("secrets"), from.Name)
	}
	s.secrets[to.String()] = from.String()
	return nil
}

func (s secretStore) DeleteCopy(_ context.Context, copied types.NamespacedName, _ map[string]string) error {
	delete(s.secrets, copied.String())
	return nil
}

func (s secretStore) Watched(namespace, name string) bool {
	_, exists := s.secrets[namespace+"/"+name]
	return exists
}
