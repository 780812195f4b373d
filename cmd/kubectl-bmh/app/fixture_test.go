// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/dynamic/fake"
	corefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	metal3fake "github.com/metal3-io/metal3-apiserver/pkg/generated/clientset/versioned/fake"
)

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// cluster is what a command works against, and what it has printed.
type cluster struct {
	metal3      *metal3fake.Clientset
	core        *corefake.Clientset
	dynamic     *fake.FakeDynamicClient
	stdin       string
	canAsk      bool
	out, errOut string
}

func newCluster(objects ...runtime.Object) *cluster {
	var ours, core, others []runtime.Object
	for _, o := range objects {
		switch o.(type) {
		case *metal3.BareMetalHost:
			ours = append(ours, o)
		case *corev1.Event, *corev1.Namespace:
			core = append(core, o)
		default:
			others = append(others, o)
		}
	}
	c := &cluster{
		metal3: metal3fake.NewSimpleClientset(ours...),
		core:   corefake.NewClientset(core...),
		dynamic: fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
			{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1", Resource: "metal3machines"}: "Metal3MachineList",
			{Group: "cluster.x-k8s.io", Version: "v1beta1", Resource: "machines"}:                      "MachineList",
			{Group: "ironic.metal3-apiserver.io", Version: "v1alpha1", Resource: "candidates"}:         "CandidateList",
			{Group: "ironic.metal3-apiserver.io", Version: "v1alpha1", Resource: "ironicinstances"}:    "IronicInstanceList",
		}, others...),
	}
	// Without this, the fake server answers with the host.
	c.metal3.PrependReactor("get", "baremetalhosts", func(action clienttesting.Action) (bool, runtime.Object, error) {
		get := action.(clienttesting.GetAction)
		switch get.GetSubresource() {
		case "":
			return false, nil, nil
		case "history":
			return true, &metal3.HostHistory{Status: metal3.HostHistoryStatus{Events: []metal3.HistoryEvent{
				{ID: "1", Time: metav1.NewTime(now.Add(-time.Hour)), Severity: "ERROR", Type: "deploying", Message: "no answer from the ramdisk"},
			}}}, nil
		}
		return true, nil, apierrors.NewNotFound(metal3.Resource("baremetalhosts/"+get.GetSubresource()), get.GetName())
	})
	return c
}

// run executes a command line and returns the exit code.
func (c *cluster) run(t *testing.T, args ...string) int {
	t.Helper()
	return c.runWith(t.Context(), t, args...)
}

func (c *cluster) runWith(ctx context.Context, t *testing.T, args ...string) int {
	t.Helper()
	t.Setenv("KUBECONFIG", "/nonexistent")
	var out, errOut bytes.Buffer
	s := newSession(genericiooptions.IOStreams{In: strings.NewReader(c.stdin), Out: &out, ErrOut: &errOut})
	s.now = func() time.Time { return now }
	s.canAsk = func() bool { return c.canAsk }
	s.readPassword = func(context.Context, string) (string, error) {
		return "", errors.New("nobody is there to type a password")
	}
	s.connectWith = func(*rest.Config) (*clients, error) { return &clients{c.metal3, c.core, c.dynamic}, nil }
	code := run(ctx, s, append([]string{"--server=http://192.0.2.1", "-n", "metal3"}, args...))
	c.out, c.errOut = out.String(), errOut.String()
	return code
}

func host(name string, state metal3.ProvisioningState, change ...func(*metal3.BareMetalHost)) *metal3.BareMetalHost {
	h := &metal3.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: "metal3", Name: name, UID: types.UID("uid-" + name)},
		Spec:       metal3.BareMetalHostSpec{Online: true, Image: &metal3.Image{URL: "http://images/x"}},
		Status: metal3.BareMetalHostStatus{
			OperationalStatus: metal3.OperationalStatusOK,
			Provisioning:      metal3.ProvisionStatus{State: state},
			Ironic:            &metal3.IronicStatus{ProvisionState: "active", PowerState: "power on"},
		},
	}
	for _, c := range change {
		c(h)
	}
	return h
}

func withError(message string) func(*metal3.BareMetalHost) {
	return func(h *metal3.BareMetalHost) {
		h.Status.OperationalStatus, h.Status.ErrorType, h.Status.ErrorMessage = metal3.OperationalStatusError, metal3.RegistrationError, message
	}
}

func withLabel(key, value string) func(*metal3.BareMetalHost) {
	return func(h *metal3.BareMetalHost) { h.Labels = map[string]string{key: value} }
}

// expect asserts that a text has parts.
func expect(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s lacks %q:\n%s", what, part, text)
		}
	}
}
