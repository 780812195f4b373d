// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"context"
	"os"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/metal3-io/metal3-apiserver/pkg/generated/clientset/versioned"
	typed "github.com/metal3-io/metal3-apiserver/pkg/generated/clientset/versioned/typed/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

type suite struct{ testbed.Suite }

var s suite

func TestMain(m *testing.M) {
	s.Main(m, "safety", func(context.Context) error { return nil })
}

// bed is an Ironic with its machines and a server of a test's own.
type bed struct {
	ironicUnderTest
	t      *testing.T
	ctx    context.Context
	ns     string
	server *testbed.Server
	client versioned.Interface
	hosts  typed.BareMetalHostInterface
}

// newBed starts an Ironic, and prepares a server with the additional flags.
func newBed(t *testing.T, ctx context.Context, args ...string) *bed {
	t.Helper()
	b := newIronicBed(t, ctx)
	b.server, b.client = b.newServer(testbed.ServerOptions{Args: args})
	b.hosts = b.client.Metal3V1alpha1().BareMetalHosts(b.ns)
	return b
}

// newIronicBed starts an Ironic. There is no server yet.
func newIronicBed(t *testing.T, ctx context.Context) *bed {
	t.Helper()
	b := &bed{ironicUnderTest: startIronic(t, ctx), t: t, ctx: ctx, ns: s.NewNamespace(t, ctx)}
	b.createSecret("bmc")
	return b
}

// createSecret creates a Secret with the credentials of all BMCs.
func (b *bed) createSecret(name string) {
	b.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{"username": "admin", "password": "password"}}
	if _, err := s.Core.CoreV1().Secrets(b.ns).Create(b.ctx, secret, metav1.CreateOptions{}); err != nil {
		b.t.Fatal(err)
	}
}

// newServer prepares a server, and returns it with a client.
func (b *bed) newServer(options testbed.ServerOptions) (*testbed.Server, versioned.Interface) {
	b.t.Helper()
	options.IronicEndpoint = b.Operator().Endpoint
	options.Args = append(append([]string{"--v=2"}, b.RamdiskArgs()...), options.Args...)
	server, client := s.NewServer(b.t, b.ctx, b.ns, options)
	if err := server.ApplyRBAC(b.ctx); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		if _, err := server.Stop(); err != nil {
			b.t.Error(err)
		}
		if log, err := server.Logs(); err == nil && b.t.Failed() {
			const most = 200_000
			b.t.Logf("log of the server:\n%s", log[max(0, len(log)-most):])
		}
	})
	return server, client
}

func (b *bed) start() {
	b.t.Helper()
	if err := b.server.Start(b.ctx); err != nil {
		b.t.Fatal(err)
	}
}

// inParallel runs a test beside the others, unless each of them keeps a real Ironic busy.
func inParallel(t *testing.T) {
	t.Helper()
	if testbed.IsSimulated() {
		t.Parallel()
	}
}

func fromEnv(t *testing.T, name string, otherwise int) int {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		return otherwise
	}
	n, err := strconv.Atoi(value)
	if err != nil {
		t.Fatalf("%s=%s: %v", name, value, err)
	}
	return n
}
