// SPDX-License-Identifier: Apache-2.0

package life

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/generated/clientset/versioned"
	typed "github.com/metal3-io/metal3-apiserver/pkg/generated/clientset/versioned/typed/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// host is a BareMetalHost and the machine behind it.
type host struct {
	t       *testing.T
	ctx     context.Context
	ns      string
	name    string
	machine *bmcsim.Machine
	api     typed.BareMetalHostInterface

	mu   sync.Mutex
	seen []metal3.ProvisioningState // by a watcher
	// latest is what the watcher was told last.
	latest *metal3.BareMetalHost
	// progress is what the watcher was told of Ironic's operations and their steps.
	progress []metal3.IronicStatus
}

// option changes a host before it is created, or its machine.
type option func(*metal3.BareMetalHost, *bmcsim.Machine)

func virtualMedia(h *metal3.BareMetalHost, m *bmcsim.Machine) {
	h.Spec.BMC.Address = m.VirtualMediaAddress()
}

func notInspected(h *metal3.BareMetalHost, _ *bmcsim.Machine) {
	h.Spec.InspectionMode = metal3.InspectionModeDisabled
}

func notCleaned(h *metal3.BareMetalHost, _ *bmcsim.Machine) {
	h.Spec.AutomatedCleaningMode = metal3.CleaningModeDisabled
}

func offline(h *metal3.BareMetalHost, _ *bmcsim.Machine) { h.Spec.Online = false }

func external(h *metal3.BareMetalHost, _ *bmcsim.Machine) { h.Spec.ExternallyProvisioned = true }

func runsAlready(_ *metal3.BareMetalHost, m *bmcsim.Machine) { m.SetPower(bmcsim.On) }

func withImage(h *metal3.BareMetalHost, _ *bmcsim.Machine) {
	h.Spec.Image = &metal3.Image{URL: s.machines.FileURL(bmcsim.ImageFile), Checksum: s.machines.FileChecksum(bmcsim.ImageFile), ChecksumType: metal3.SHA256}
}

func withSecret(name string) option {
	return func(h *metal3.BareMetalHost, _ *bmcsim.Machine) { h.Spec.BMC.CredentialsName = name }
}

func annotated(key, value string) option {
	return func(h *metal3.BareMetalHost, _ *bmcsim.Machine) {
		metav1.SetMetaDataAnnotation(&h.ObjectMeta, key, value)
	}
}

func faulty(f bmcsim.Fault) option {
	return func(_ *metal3.BareMetalHost, m *bmcsim.Machine) { _ = m.SetFault(f, "") } // fails in mending only
}

// newHost makes a namespace, a machine, its Secret and its host, with a time limit.
func newHost(t *testing.T, options ...option) *host {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 6*testbed.Patience)
	t.Cleanup(cancel)
	return newHostIn(t, ctx, s.NewNamespace(t, ctx), "worker-0", options...)
}

func newHostIn(t *testing.T, ctx context.Context, ns, name string, options ...option) *host {
	t.Helper()
	return newHostOn(t, ctx, s.Metal3, ns, name, options...)
}

// newHostOn is for the hosts of the suite's server or of another one.
func newHostOn(t *testing.T, ctx context.Context, hosts versioned.Interface, ns, name string, options ...option) *host {
	t.Helper()
	machine, err := s.machines.AddMachine()
	if err != nil {
		t.Fatal(err)
	}
	return newHostOf(t, ctx, hosts, ns, name, machine, options...)
}

// newHostOf is for a machine of the suite's Ironic or of another one.
func newHostOf(t *testing.T, ctx context.Context, hosts versioned.Interface, ns, name string, machine *bmcsim.Machine, options ...option) *host {
	t.Helper()
	h := &host{t: t, ctx: ctx, ns: ns, name: name, machine: machine, api: hosts.Metal3V1alpha1().BareMetalHosts(ns)}
	h.secret(name+"-bmc", map[string]string{"username": machine.Username(), "password": machine.Password()})
	bmh := &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: metal3.BareMetalHostSpec{
		Online: true, BootMACAddress: machine.MAC(), BMC: metal3.BMCDetails{Address: machine.Address(), CredentialsName: name + "-bmc"},
	}}
	for _, o := range options {
		o(bmh, machine)
	}
	h.create(bmh)
	return h
}

func (h *host) create(bmh *metal3.BareMetalHost) {
	h.t.Helper()
	created, err := h.api.Create(h.ctx, bmh, metav1.CreateOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(h.leave)
	h.follow(created.ResourceVersion)
}

// leave has the host go the quick way, without cleaning, so that it does not keep
// Ironic busy while other tests run. Nobody waits for that.
func (h *host) leave() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(h.ctx), testbed.Patience)
	defer cancel()
	_ = h.machine.ClearFault()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null,%q:"{\"force\":true}"}}}`, metal3.PausedAnnotation, metal3.DetachedAnnotation)
	_, err := h.api.Patch(ctx, h.name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err == nil {
		err = h.api.Delete(ctx, h.name, metav1.DeleteOptions{})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		h.t.Logf("host %s/%s is left behind: %s", h.ns, h.name, err)
	}
}

// follow notes the states that a watcher sees.
func (h *host) follow(from string) {
	h.t.Helper()
	w, err := h.api.Watch(h.ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + h.name, ResourceVersion: from})
	if err != nil {
		h.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range w.ResultChan() {
			bmh, ok := event.Object.(*metal3.BareMetalHost)
			if !ok || event.Type == watch.Bookmark {
				continue
			}
			h.mu.Lock()
			h.latest = bmh
			if state := bmh.Status.Provisioning.State; len(h.seen) == 0 || h.seen[len(h.seen)-1] != state {
				h.seen = append(h.seen, state)
			}
			if status := bmh.Status.Ironic; status != nil {
				h.progress = append(h.progress, *status)
			}
			h.mu.Unlock()
		}
	}()
	h.t.Cleanup(func() { w.Stop(); <-done })
}

// states are what the watcher saw since the last call.
func (h *host) states() []metal3.ProvisioningState {
	h.mu.Lock()
	defer h.mu.Unlock()
	seen := h.seen
	h.seen = slices.Clone(seen[max(len(seen)-1, 0):])
	return slices.DeleteFunc(slices.Clone(seen), func(s metal3.ProvisioningState) bool { return s == "" })
}

// seenSoFar is what the next call of states will return.
func (h *host) seenSoFar() []metal3.ProvisioningState {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.seen)
}

func (h *host) expectStates(want ...metal3.ProvisioningState) {
	h.t.Helper()
	h.eventually(func() string {
		h.mu.Lock()
		defer h.mu.Unlock()
		if len(h.seen) == 0 || h.seen[len(h.seen)-1] != want[len(want)-1] {
			return fmt.Sprintf("the watcher saw %v, want %v", h.seen, want)
		}
		return ""
	})
	if got := h.states(); !slices.Equal(got, want) {
		h.t.Errorf("the watcher saw %q, want %q", got, want)
	}
}

func (h *host) secret(name string, data map[string]string) {
	h.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: data}
	if _, err := s.Core.CoreV1().Secrets(h.ns).Create(h.ctx, secret, metav1.CreateOptions{}); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) patchSecret(name string, data map[string]string) {
	h.t.Helper()
	patch, _ := json.Marshal(map[string]any{"stringData": data})
	if _, err := s.Core.CoreV1().Secrets(h.ns).Patch(h.ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) get() *metal3.BareMetalHost {
	h.t.Helper()
	bmh, err := h.api.Get(h.ctx, h.name, metav1.GetOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	return bmh
}

// patch is a JSON merge patch, as kubectl and CAPM3 send.
func (h *host) patch(patch string, args ...any) {
	h.t.Helper()
	if _, err := h.api.Patch(h.ctx, h.name, types.MergePatchType, fmt.Appendf(nil, patch, args...), metav1.PatchOptions{}); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) annotate(key, value string) {
	h.t.Helper()
	h.patch(`{"metadata":{"annotations":{%q:%q}}}`, key, value)
}

func (h *host) annotateNot(key string) {
	h.t.Helper()
	h.patch(`{"metadata":{"annotations":{%q:null}}}`, key)
}

func (h *host) retry() {
	h.t.Helper()
	if _, err := h.api.Retry(h.ctx, h.name, &metal3.HostRetry{}, metav1.CreateOptions{}); err != nil {
		h.t.Fatal(err)
	}
}

// wait waits until the host is as wanted, and returns it. It is read at first, and later every three seconds: in between,
// the watcher tells of changes. Each read costs Ironic a request, and it has several tests to serve.
func (h *host) wait(what string, wanted func(*metal3.BareMetalHost) bool) *metal3.BareMetalHost {
	h.t.Helper()
	var last *metal3.BareMetalHost
	var read time.Time
	began := time.Now()
	h.eventually(func() string {
		if told := h.toldAfter(last); told != nil {
			last = told
			if wanted(told) {
				return ""
			}
		}
		// What is wanted of the machine can be true without a change of the host.
		if last == nil || time.Since(read) > 3*time.Second || wanted(last) {
			read = time.Now()
			bmh, err := h.api.Get(h.ctx, h.name, metav1.GetOptions{})
			if err != nil {
				return err.Error()
			}
			last = bmh
			if wanted(bmh) {
				return ""
			}
		}
		return fmt.Sprintf("host not: %s; %s", what, describe(last))
	})
	h.t.Logf("%s after %s", what, time.Since(began).Round(100*time.Millisecond))
	return last
}

// toldAfter returns what the watcher was told last, if that is later than what was read; otherwise nil.
func (h *host) toldAfter(read *metal3.BareMetalHost) *metal3.BareMetalHost {
	h.mu.Lock()
	defer h.mu.Unlock()
	if read == nil || h.latest == nil {
		return nil
	}
	if later, err := resourceversion.CompareResourceVersion(h.latest.ResourceVersion, read.ResourceVersion); err != nil || later <= 0 {
		return nil
	}
	return h.latest
}

// describe returns what a failed test says of a host.
func describe(bmh *metal3.BareMetalHost) string {
	s := &bmh.Status
	return fmt.Sprintf("host %s is %s %q, on %t, error %d %q %q, updated %s, Ironic %+v", bmh.Name, s.Provisioning.State,
		s.OperationalStatus, s.PoweredOn, s.ErrorCount, s.ErrorType, s.ErrorMessage, s.LastUpdated, s.Ironic)
}

// in waits until isIn is true.
func (h *host) in(state metal3.ProvisioningState) *metal3.BareMetalHost {
	h.t.Helper()
	return h.wait(string(state), isIn(state))
}

func (h *host) available() *metal3.BareMetalHost {
	h.t.Helper()
	return h.in(metal3.StateAvailable)
}

func (h *host) provisioned() *metal3.BareMetalHost {
	h.t.Helper()
	return h.in(metal3.StateProvisioned)
}

// ironicIn waits for a provision state of Ironic's.
func (h *host) ironicIn(state ironic.ProvisionState) *metal3.BareMetalHost {
	h.t.Helper()
	return h.wait("Ironic says "+string(state), func(bmh *metal3.BareMetalHost) bool {
		return bmh.Status.Ironic != nil && bmh.Status.Ironic.ProvisionState == string(state)
	})
}

// power waits for the machine's power, and for the host to tell of it.
func (h *host) power(want bmcsim.Power) {
	h.t.Helper()
	h.wait("powered "+string(want), func(bmh *metal3.BareMetalHost) bool {
		return h.machine.Power() == want && bmh.Status.PoweredOn == (want == bmcsim.On) && bmh.Status.Ironic != nil && bmh.Status.Ironic.TargetPowerState == ""
	})
}

// wrote asserts how many images were written to the machine's disk so far.
func (h *host) wrote(want int) {
	h.t.Helper()
	if got := h.machine.Writes(); got != want {
		h.t.Errorf("%d images were written to the machine, want %d", got, want)
	}
}

// isTried reports whether Ironic is at work on the host.
func isTried(bmh *metal3.BareMetalHost) bool {
	node := bmh.Status.Ironic
	if node == nil {
		return false
	}
	if node.TargetPowerState != "" || node.Reservation != "" {
		return true
	}
	switch ironic.ProvisionState(node.ProvisionState) {
	case ironic.Verifying, ironic.Inspecting, ironic.InspectWait, ironic.Cleaning, ironic.CleanWait,
		ironic.Deploying, ironic.DeployWait, ironic.Deleting, ironic.Adopting:
		return true
	}
	return false
}

// isIn is true in a state, without error, and with the power as it is to be.
func isIn(state metal3.ProvisioningState) func(*metal3.BareMetalHost) bool {
	return func(bmh *metal3.BareMetalHost) bool {
		return bmh.Status.Provisioning.State == state && bmh.Status.ErrorMessage == "" && bmh.Status.PoweredOn == bmh.Spec.Online
	}
}

// stays asserts for some time that a host remains as it is.
func (h *host) stays(period time.Duration, what string, wanted func(*metal3.BareMetalHost) bool) {
	h.t.Helper()
	until := time.Now().Add(period)
	h.eventually(func() string {
		if bmh := h.get(); !wanted(bmh) {
			h.t.Fatalf("host %s did not stay so: %s; it is %+v", h.name, what, bmh.Status)
		}
		if time.Now().Before(until) {
			return "more time has to pass"
		}
		return ""
	})
}

// undone waits until a deployment has failed for the nth time, and was undone.
func (h *host) undone(n int) *metal3.BareMetalHost {
	h.t.Helper()
	return h.wait("available with the error", func(bmh *metal3.BareMetalHost) bool {
		return bmh.Status.Provisioning.State == metal3.StateAvailable && bmh.Status.ErrorType == metal3.ProvisioningError && bmh.Status.ProvisioningFailCount == n
	})
}

// failed waits for an error.
func (h *host) failed(kind metal3.ErrorType, text string) *metal3.BareMetalHost {
	h.t.Helper()
	return h.wait("shows "+string(kind), func(bmh *metal3.BareMetalHost) bool {
		return bmh.Status.ErrorType == kind && strings.Contains(bmh.Status.ErrorMessage, text) && bmh.Status.OperationalStatus == metal3.OperationalStatusError
	})
}

func (h *host) delete() {
	h.t.Helper()
	if err := h.api.Delete(h.ctx, h.name, metav1.DeleteOptions{}); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) gone() {
	h.t.Helper()
	h.eventually(func() string {
		bmh, err := h.api.Get(h.ctx, h.name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return ""
		}
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("host %s is still there: %s, error %q, Ironic %+v", h.name, bmh.Status.Provisioning.State, bmh.Status.ErrorMessage, bmh.Status.Ironic)
	})
}

// eventually repeats check until it returns nothing.
func (h *host) eventually(check func() string) {
	h.t.Helper()
	// Each read costs Ironic a request, and it has several tests to serve.
	testbed.EventuallyEvery(h.t, h.ctx, 500*time.Millisecond, check)
}

func (h *host) fault(f bmcsim.Fault) {
	h.t.Helper()
	if err := h.machine.SetFault(f, ""); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) mend(f bmcsim.Fault) {
	h.t.Helper()
	if err := h.machine.ClearFault(f); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) wantImage() {
	h.t.Helper()
	h.wantImageAt(s.machines.FileURL(bmcsim.ImageFile), s.machines.FileChecksum(bmcsim.ImageFile))
}

func (h *host) wantImageAt(url, checksum string) {
	h.t.Helper()
	h.patch(`{"spec":{"image":{"url":%q,"checksum":%q,"checksumType":"sha256","format":"raw"}}}`, url, checksum)
}

// slowImage is an image whose download does not end before release is called.
// begun is closed when a machine begins to fetch it.
type slowImage struct {
	url, checksum string
	begun         chan struct{}
	release       func()
}

func newSlowImage(t *testing.T) *slowImage {
	content := []byte("an image that takes its time\n")
	begun, released := make(chan struct{}), make(chan struct{})
	begin := sync.OnceFunc(func() { close(begun) })
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		if r.Method == http.MethodHead { // Ironic looks whether it is there
			return
		}
		begin()
		select {
		case <-released:
			_, _ = w.Write(content)
		case <-r.Context().Done():
		}
	}))
	i := &slowImage{url: server.URL + "/slow.raw", checksum: fmt.Sprintf("%x", sha256.Sum256(content)), begun: begun, release: sync.OnceFunc(func() { close(released) })}
	t.Cleanup(func() { i.release(); server.Close() })
	return i
}

// deploying gives the host a slow image and waits until its machine fetches it.
func (h *host) deploying() *slowImage {
	h.t.Helper()
	image := newSlowImage(h.t)
	h.wantImageAt(image.url, image.checksum)
	select {
	case <-image.begun:
	case <-time.After(testbed.Patience):
		status := h.get().Status
		h.t.Fatalf("the machine did not begin to fetch its image: the host is %s, error %q, conditions %+v, Ironic %+v", status.Provisioning.State, status.ErrorMessage, status.Conditions, status.Ironic)
	case <-h.ctx.Done():
		h.t.Fatal(h.ctx.Err())
	}
	return image
}
