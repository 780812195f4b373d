// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/metal3-io/metal3-apiserver/pkg/generated/clientset/versioned"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
)

// Suite is what the end-to-end tests of a package share: a control plane, clients of it for an
// administrator, and the programs that the package starts in addition. A package embeds it:
//
//	type suite struct {
//		testbed.Suite
//		ironic *testbed.SimulatedIronic
//	}
//
//	var s suite
//
//	func TestMain(m *testing.M) { s.Main(m, "example", s.start) }
type Suite struct {
	// Kube is the control plane. It includes kube-controller-manager unless ControllersLater is set.
	Kube *Kube
	// Server is the metal3-apiserver. It is nil until StartServer has started it.
	Server *Server
	// Config is the configuration for an administrator's clients, through kube-apiserver. It has no
	// client-side rate limit, and the clients do not log the warnings in responses.
	Config *rest.Config
	// Metal3, Core and Dynamic are clients that use Config.
	Metal3  versioned.Interface
	Core    kubernetes.Interface
	Dynamic dynamic.Interface

	// ControllersLater leaves it to the package to start kube-controller-manager, with
	// Kube.StartControllers. Set it before Main.
	ControllersLater bool
	// Parallel is how many tests run at a time, whatever the number of processors: they mostly wait. The default is 4, and
	// -parallel has the last word. Set it before Main.
	Parallel int
	// AuditPolicy is the audit policy of kube-apiserver. Set it before Main.
	AuditPolicy string

	dir   string
	stops []func() error
}

// Runner runs the tests of a package and returns the exit code: *testing.M.
type Runner interface{ Run() (code int) }

// Main is the TestMain of a package: it starts the control plane, calls start for the rest, runs the
// tests, stops everything and exits. With -short it does nothing. If a test failed, the logs are
// kept. start can fail after having started some of the programs.
func (s *Suite) Main(m Runner, name string, start func(context.Context) error) {
	if !flag.Parsed() {
		if err := flag.Set("test.parallel", strconv.Itoa(cmp.Or(s.Parallel, 4))); err != nil {
			panic(err) // no such flag
		}
		flag.Parse()
	}
	if testing.Short() {
		fmt.Printf("%s: skipped because of -short\n", name)
		return
	}
	os.Exit(s.run(m, name, start))
}

func (s *Suite) run(m Runner, name string, start func(context.Context) error) (code int) {
	fail := func(err error) int {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		return 1
	}
	var err error
	if s.dir, err = os.MkdirTemp("", name+"-"); err != nil {
		return fail(err)
	}
	defer func() {
		if err := s.stop(); err != nil {
			code = fail(err)
		}
		if code == 0 {
			_ = os.RemoveAll(s.dir)
		} else {
			fmt.Fprintln(os.Stderr, "logs are in", s.dir)
		}
	}()
	// The plugin runs in this process: it must not take another cluster, of an earlier run, for one of ours.
	if err := os.Setenv("KUBECACHEDIR", filepath.Join(s.dir, "cache")); err != nil {
		return fail(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 4*Patience)
	defer cancel()
	began := time.Now()
	if err := s.startKube(ctx); err != nil {
		return fail(err)
	}
	if err := start(ctx); err != nil {
		return fail(err)
	}
	fmt.Printf("%s: everything is running after %s\n", name, time.Since(began).Round(time.Millisecond))
	return m.Run()
}

func (s *Suite) startKube(ctx context.Context) error {
	dir, err := s.Dir("kube")
	if err != nil {
		return err
	}
	if s.Kube, err = StartKube(ctx, KubeOptions{Dir: dir, ControllerManager: !s.ControllersLater, AuditPolicy: s.AuditPolicy}); err != nil {
		return err
	}
	s.OnStop(s.Kube.Stop)
	s.Config = rest.CopyConfig(s.Kube.Admin.Config)
	s.Config.WarningHandler = rest.NoWarnings{}
	if s.Metal3, err = versioned.NewForConfig(s.Config); err != nil {
		return err
	}
	if s.Core, err = kubernetes.NewForConfig(s.Config); err != nil {
		return err
	}
	if s.Dynamic, err = dynamic.NewForConfig(s.Config); err != nil {
		return err
	}
	return s.keepSecretsElsewhere(ctx)
}

// Dir creates a folder for a part of the suite. It is removed with the suite.
func (s *Suite) Dir(name string) (string, error) {
	path := filepath.Join(s.dir, name)
	return path, os.MkdirAll(path, 0o700)
}

// OnStop adds a function that stops a part of the suite. The functions are called in reverse order.
func (s *Suite) OnStop(stop func() error) { s.stops = append(s.stops, stop) }

func (s *Suite) stop() error {
	var errs []error
	for i := len(s.stops) - 1; i >= 0; i-- {
		errs = append(errs, s.stops[i]())
	}
	return errors.Join(errs...)
}

// StartSimulatedIronic starts a simulated Ironic that stops with the suite.
func (s *Suite) StartSimulatedIronic(options ironicsim.Options) (*SimulatedIronic, error) {
	ironic, err := StartSimulatedIronic(options)
	if err == nil {
		s.OnStop(func() error { ironic.Close(); return nil })
	}
	return ironic, err
}

// readTimeout is that of the servers of a Suite.
const readTimeout = 10 * time.Second

// StartServer starts a metal3-apiserver with the given options. It sets their Kube and Dir.
func (s *Suite) StartServer(ctx context.Context, options ServerOptions) (err error) {
	options.Kube, options.ReadTimeout = s.Kube, cmp.Or(options.ReadTimeout, readTimeout)
	if options.Dir, err = s.Dir("server"); err != nil {
		return err
	}
	server, err := StartServer(ctx, options)
	if err != nil {
		return err
	}
	s.Server = server
	s.OnStop(func() error { _, err := server.Stop(); return err })
	return nil
}

// NewServer prepares an additional server for a test, without starting it. The server has a store of
// its own unless the options name one, and its Lease is in the given namespace. It can be reached
// only at its own port, not through the aggregation layer. The returned client is an administrator's.
func (s *Suite) NewServer(t *testing.T, ctx context.Context, namespace string, options ServerOptions) (*Server, versioned.Interface) {
	t.Helper()
	if err := s.allowLease(ctx, namespace, cmp.Or(options.ServiceAccount, ServiceName)); err != nil {
		t.Fatal(err)
	}
	if err := s.markElsewhere(ctx, namespace); err != nil {
		t.Fatal(err)
	}
	options.Kube, options.Dir, options.ReadTimeout = s.Kube, t.TempDir(), cmp.Or(options.ReadTimeout, readTimeout)
	options.Args = append(slices.Clone(options.Args), "--leader-elect-resource-namespace="+namespace)
	server, err := NewServer(options)
	if err != nil {
		t.Fatal(err)
	}
	config := rest.CopyConfig(server.Direct.Config)
	config.WarningHandler = rest.NoWarnings{}
	metal3, err := versioned.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return server, metal3
}

// allowLease permits the server's service account to keep a Lease in the given namespace. The
// manifests permit that only in the server's own namespace.
func (s *Suite) allowLease(ctx context.Context, namespace, serviceAccount string) error {
	name := metav1.ObjectMeta{Name: serviceAccount + "-lease"}
	_, err := s.Core.RbacV1().Roles(namespace).Create(ctx, &rbacv1.Role{ObjectMeta: name, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "create", "update"},
	}}}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil // for another server of the test
	}
	if err != nil {
		return err
	}
	_, err = s.Core.RbacV1().RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: name,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: Namespace, Name: serviceAccount}},
	}, metav1.CreateOptions{})
	return err
}

// Begin gives a test a namespace of its own, and a time limit that ends what hangs.
func (s *Suite) Begin(t *testing.T) (ctx context.Context, namespace string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 6*Patience)
	t.Cleanup(cancel)
	return ctx, s.NewNamespace(t, ctx)
}

// NewNamespace creates a namespace for a test and returns its name.
func (s *Suite) NewNamespace(t *testing.T, ctx context.Context) string {
	t.Helper()
	name := strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))
	ns, err := s.Core.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: name[:min(len(name), 50)] + "-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return ns.Name
}
