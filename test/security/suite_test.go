// Package security holds the server to docs/security.md: who may do what, by which
// proof of who he is, and that no password gets to anybody by way of it.
//
// A real kube-apiserver with RBAC, kube-controller-manager, which fills the
// aggregated roles, and our server as the service account of the manifests, at its
// highest verbosity and with an audit log of whole bodies. The Ironic is the
// simulator, behind a proxy that makes it quote what it is sent.
package security

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/generated/clientset/versioned"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// suite is what all tests share. A test keeps to a namespace of its own.
type suite struct {
	kube   *testbed.Kube
	server *testbed.Server
	sim    *ironicsim.Sim
	ironic *quotingIronic
	audit  string // the path of our server's audit log
	// metal3 and core are an administrator's, through kube-apiserver.
	metal3 versioned.Interface
	core   kubernetes.Interface
}

var s suite

var update = flag.Bool("update", false, "write testdata anew: only when who may do what is to change")

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		fmt.Println("the security tests are left out: -short")
		return
	}
	os.Exit(testbed.RunSuite(m, "security", s.start))
}

const auditPolicy = `{"apiVersion":"audit.k8s.io/v1","kind":"Policy","rules":[{"level":"RequestResponse"}]}`

func (s *suite) start(ctx context.Context, bed *testbed.Suite) (err error) {
	if s.kube, err = bed.StartKube(ctx); err != nil {
		return err
	}
	config := s.kube.UnlimitedConfig()
	if s.core, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	if s.metal3, err = versioned.NewForConfig(config); err != nil {
		return err
	}
	// It is there when the server lists the Secrets, which it also does while others look.
	if err := applySecret(ctx); err != nil {
		return err
	}
	user, password := "ironic-user", newCanary("the password for Ironic")
	s.sim = ironicsim.New(ironicsim.Options{
		AutoInspect: true, AutoDeploy: true, RamdiskDelay: 50 * time.Millisecond, BMCTimeout: 500 * time.Millisecond,
		Username: user, Password: password.text, WithoutDefects: true,
	})
	bed.OnStop(func() error { s.sim.Close(); return nil })
	s.ironic = startQuotingIronic(s.sim)
	bed.OnStop(func() error { s.ironic.server.Close(); return nil })

	dir, err := bed.Dir("files")
	if err != nil {
		return err
	}
	s.audit = filepath.Join(dir, "audit.log")
	file := func(name, content string) (path string) {
		path = filepath.Join(dir, name)
		err = errors.Join(err, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	args := []string{
		"--v=10",
		"--ironic-username-file=" + file("username", user), "--ironic-password-file=" + file("password", password.text),
		"--audit-policy-file=" + file("policy", auditPolicy), "--audit-log-path=" + s.audit,
		"--deploy-kernel-url=http://192.0.2.1/ramdisk.kernel", "--deploy-ramdisk-url=http://192.0.2.1/ramdisk.initramfs",
	}
	if err != nil {
		return err
	}
	s.server, err = bed.StartServer(ctx, testbed.ServerOptions{Kube: s.kube, IronicEndpoint: s.ironic.server.URL, Args: args})
	bed.OnStop(searchFiles) // after all tests
	return err
}

// begin gives a test a namespace and a time limit.
func begin(t *testing.T) (ctx context.Context, namespace string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx, testbed.NewNamespace(t, ctx, s.core)
}

func makeNamespace(t *testing.T, ctx context.Context, prefix string) string {
	t.Helper()
	ns, err := s.core.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return ns.Name
}

func createSecret(t *testing.T, ctx context.Context, ns, name string, data map[string]string) *corev1.Secret {
	t.Helper()
	return createSecretOf(t, ctx, ns, name, corev1.SecretTypeOpaque, data)
}

func createSecretOf(t *testing.T, ctx context.Context, ns, name string, kind corev1.SecretType, data map[string]string) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Type: kind, StringData: data}
	created, err := s.core.CoreV1().Secrets(ns).Create(ctx, secret, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created
}

var bmcs atomic.Int32

// newBMC makes a machine that the Ironic can reach at the returned address.
func newBMC(user, password string) (address string) {
	address = fmt.Sprintf("ipmi://127.0.0.1:%d", 6230+bmcs.Add(1))
	s.sim.AddBMC(address, user, password)
	return address
}

func createHost(t *testing.T, ctx context.Context, ns, name, address, secret string, change ...func(*metal3.BareMetalHostSpec)) {
	t.Helper()
	host := &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: metal3.BareMetalHostSpec{
		Online: true, BMC: metal3.BMCDetails{Address: address, CredentialsName: secret}, BootMACAddress: newMAC(),
		AutomatedCleaningMode: metal3.CleaningModeDisabled,
	}}
	for _, c := range change {
		c(&host.Spec)
	}
	if _, err := s.metal3.Metal3V1alpha1().BareMetalHosts(ns).Create(ctx, host, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

var macs atomic.Int32

func newMAC() string { n := macs.Add(1); return fmt.Sprintf("52:54:00:5e:%02x:%02x", n>>8, n&255) }

// waitHost waits until the host is as wanted, and shows how it was when time is up.
func waitHost(t *testing.T, ctx context.Context, ns, name, what string, wanted func(*metal3.BareMetalHost) bool) *metal3.BareMetalHost {
	t.Helper()
	var last *metal3.BareMetalHost
	eventually(t, ctx, func() string {
		host, err := s.metal3.Metal3V1alpha1().BareMetalHosts(ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if last = host; wanted(host) {
			return ""
		}
		return fmt.Sprintf("host %s/%s: not yet %s: %+v", ns, name, what, host.Status)
	})
	return last
}

// eventually waits until check has nothing to say.
func eventually(t *testing.T, ctx context.Context, check func() string) {
	t.Helper()
	testbed.Eventually(t, ctx, time.Minute, 100*time.Millisecond, check)
}
