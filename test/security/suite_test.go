// SPDX-License-Identifier: Apache-2.0

package security

import (
	"context"
	"errors"
	"flag"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// suite is what all tests share. A test keeps to a namespace of its own.
type suite struct {
	testbed.Suite
	sim      *testbed.SimulatedIronic // nil with a real Ironic
	machines *bmcsim.Sim              // the machines of a real Ironic
	operator *testbed.Operator        // of either Ironic
	ironic   *quotingIronic
	ramdisk  []string // the flags that set the ramdisk
	files    string   // the directory of the server's files
	audit    string   // the path of our server's audit log
}

// file returns the path of one of the server's files.
func (s *suite) file(name string) string { return filepath.Join(s.files, name) }

var s suite

var update = flag.Bool("update", false, "write testdata anew: only when who may do what is to change")

func TestMain(m *testing.M) {
	s.AuditPolicy = kubeAuditPolicy
	s.Main(withTable{m}, "security", s.start)
}

// kubeAuditPolicy has kube-apiserver log the bodies of all requests of our server. (Those of the
// tests contain the Secrets that they create.)
const kubeAuditPolicy = `{"apiVersion":"audit.k8s.io/v1","kind":"Policy","rules":[{"level":"Request","users":["` + serviceAccount + `"]},{"level":"None"}]}`

const auditPolicy = `{"apiVersion":"audit.k8s.io/v1","kind":"Policy","rules":[{"level":"RequestResponse"}]}`

func (s *suite) start(ctx context.Context) (err error) {
	// It is there when the server lists the Secrets, which it also does while others look.
	if err := applySecret(ctx); err != nil {
		return err
	}
	user, password := "ironic-user", newCanary("the password for Ironic")
	if err := s.startIronic(ctx, user, password.text); err != nil {
		return err
	}
	s.OnStop(func() error { s.ironic.server.Close(); return nil })

	dir, err := s.Dir("files")
	if err != nil {
		return err
	}
	s.files = dir
	s.audit = s.file("audit.log")
	file := func(name, content string) (path string) {
		path = s.file(name)
		err = errors.Join(err, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	args := append([]string{
		"--v=10",
		// What hangs does so for a minute: a read that waits for it is still stale, and one that a busy machine slows down is not.
		"--ironic-read-timeout=30s",
		"--ironic-username-file=" + file("username", user), "--ironic-password-file=" + file("password", password.text),
		"--audit-policy-file=" + file("policy", auditPolicy), "--audit-log-path=" + s.audit,
	}, s.ramdisk...)
	if err != nil {
		return err
	}
	err = s.StartServer(ctx, testbed.ServerOptions{IronicEndpoint: s.ironic.server.URL, Args: args})
	s.OnStop(searchFiles) // after all tests
	return err
}

func (s *suite) startIronic(ctx context.Context, user, password string) (err error) {
	if release := os.Getenv("IRONIC"); release != "" && release != "sim" {
		return s.startRealIronic(ctx, release, user, password)
	}
	s.sim, err = s.StartSimulatedIronic(ironicsim.Options{
		AutoInspect: true, AutoDeploy: true, RamdiskDelay: 50 * time.Millisecond, BMCTimeout: 500 * time.Millisecond,
		Username: user, Password: password, WithoutDefects: true,
	})
	if err != nil {
		return err
	}
	line, err := startSerialLine()
	if err != nil {
		return err
	}
	s.OnStop(line.Close)
	s.ironic = startQuotingIronic(withConsoles(s.sim, line.Addr()))
	s.ramdisk = testbed.UnusedRamdiskArgs
	s.operator = &testbed.Operator{Endpoint: s.sim.URL(), User: user, Password: password}
	return nil
}

func (s *suite) startRealIronic(ctx context.Context, release, user, password string) error {
	dir, err := s.Dir("ironic")
	if err != nil {
		return err
	}
	ironic, err := testbed.StartDebianIronic(ctx, testbed.IronicOptions{
		Release: release, Dir: dir, User: user, Password: password,
		// The conductor, and not the BMC, downloads what a machine boots from virtual media.
		ExtraConf: "[deploy]\nramdisk_image_download_source = local\n",
	})
	if err != nil {
		return err
	}
	s.OnStop(ironic.Close)
	if s.machines, err = bmcsim.Start(bmcsim.Options{IronicURL: ironic.Endpoint}); err != nil {
		return err
	}
	s.OnStop(s.machines.Close)
	endpoint, err := url.Parse(ironic.Endpoint)
	if err != nil {
		return err
	}
	s.ironic = startQuotingIronic(httputil.NewSingleHostReverseProxy(endpoint))
	s.ramdisk = []string{"--deploy-kernel-url=" + s.machines.FileURL(bmcsim.KernelFile), "--deploy-ramdisk-url=" + s.machines.FileURL(bmcsim.RamdiskFile), "--deploy-iso-url=" + s.machines.FileURL(bmcsim.AgentISO)}
	s.operator = ironic.Operator()
	return nil
}

func makeNamespace(t *testing.T, ctx context.Context, prefix string) string {
	t.Helper()
	ns, err := s.Core.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return ns.Name
}

func createSecretOf(t *testing.T, ctx context.Context, ns, name string, kind corev1.SecretType, data map[string]string) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Type: kind, StringData: data}
	created, err := s.Core.CoreV1().Secrets(ns).Create(ctx, secret, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created
}

func createHost(t *testing.T, ctx context.Context, ns, name, address, secret string, change ...func(*metal3.BareMetalHostSpec)) {
	t.Helper()
	host := &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: metal3.BareMetalHostSpec{
		Online: true, BMC: metal3.BMCDetails{Address: address, CredentialsName: secret}, BootMACAddress: unusedMAC(),
		AutomatedCleaningMode: metal3.CleaningModeDisabled,
	}}
	for _, c := range change {
		c(&host.Spec)
	}
	if _, err := s.Hosts(ns).Create(ctx, host, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// unusedMAC returns a MAC address that no machine has: those of bmcsim begin as those of testbed do.
func unusedMAC() string { return strings.Replace(testbed.NewMAC(), "52:54:00", "52:54:99", 1) }

// waitHost waits until the host is as wanted, and shows how it was when time is up.
func waitHost(t *testing.T, ctx context.Context, ns, name, what string, wanted func(*metal3.BareMetalHost) bool) *metal3.BareMetalHost {
	t.Helper()
	return s.WaitHost(t, ctx, ns, name, what, wanted)
}

// eventually waits until check has nothing to say.
func eventually(t *testing.T, ctx context.Context, check func() string) {
	t.Helper()
	testbed.Eventually(t, ctx, check)
}
