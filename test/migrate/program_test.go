// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// installation is our server installed beside the CRDs, not started yet.
type installation struct {
	*testbed.Server
	// kubeconfigs are those of the service accounts of the Jobs, by the Job.
	kubeconfigs map[string]string
	storage     []string // flags
	ca          string
	service     string
}

func serverArgs() []string { return append([]string{"--v=1"}, testbed.UnusedRamdiskArgs...) }

// install prepares a server with an embedded etcd, or, with an address, one elsewhere.
func install(t *testing.T, etcd string) *installation {
	t.Helper()
	ctx, dir := t.Context(), t.TempDir()
	args := serverArgs()
	if etcd != "" {
		args = append(args, "--etcd-prefix=/registry/"+t.Name())
	}
	server, err := testbed.NewServer(testbed.ServerOptions{
		Kube: s.Kube, Dir: dir, IronicEndpoint: s.ironic.URL(), EtcdServers: etcd, Args: args,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := server.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			log, _ := server.Logs()
			t.Log("the end of the server's log:\n" + log[max(0, len(log)-4000):])
		}
	})
	if err := server.ApplyRBAC(ctx); err != nil {
		t.Fatal(err)
	}
	// An earlier test may have left it held, as an export does.
	if err := s.Core.CoordinationV1().Leases(testbed.Namespace).Delete(ctx, "metal3-apiserver", metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	// The program is who its job would be in a cluster.
	manifests := []string{"apply"}
	for _, pattern := range []string{"serviceaccount-*.yaml", "*role*.yaml"} {
		paths, err := filepath.Glob("../../artifacts/apiservice/components/migration/" + pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			manifests = append(manifests, "-f", path)
		}
	}
	kubectl(t, manifests...)
	kubeconfigs := map[string]string{}
	for _, job := range []string{"import", "switch", "export", "prune"} {
		who, err := s.Kube.ClientFor("system:serviceaccount:"+testbed.Namespace+":metal3-apiserver-"+job,
			"system:serviceaccounts", "system:serviceaccounts:"+testbed.Namespace, "system:authenticated")
		if err != nil {
			t.Fatal(err)
		}
		kubeconfigs[job] = who.Kubeconfig
	}
	i := &installation{Server: server, kubeconfigs: kubeconfigs, storage: []string{"--data-dir=" + filepath.Join(dir, "data")}, ca: filepath.Join(dir, "ca.crt")}
	if etcd != "" {
		i.storage = []string{"--etcd-servers=" + etcd, "--etcd-prefix=/registry/" + t.Name()}
	}
	if err := os.WriteFile(i.ca, s.Kube.Admin.Config.CAData, 0o600); err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(server.Direct.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	i.service = fmt.Sprintf("%s/%s:%s", testbed.Namespace, testbed.ServiceName, at.Port())
	var port int32
	if _, err := fmt.Sscan(at.Port(), &port); err != nil {
		t.Fatal(err)
	}
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: testbed.ServiceName},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost", Ports: []corev1.ServicePort{{Name: "https", Port: port}}},
	}
	services := s.Core.CoreV1().Services(testbed.Namespace)
	if err := services.Delete(ctx, service.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	if _, err := services.Create(ctx, service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return i
}

// command is `metal3-apiserver import` or `export`.
func (i *installation) command(ctx context.Context, args ...string) *exec.Cmd {
	job := args[0]
	switch {
	case slices.Contains(args, "--switch"), slices.Contains(args, "--verify"):
		job = "switch"
	case slices.Contains(args, "--prune"):
		job = "prune"
	}
	args = append(args, "--kubeconfig="+i.kubeconfigs[job], "--apiservice-service="+i.service)
	if !slices.Contains(args, "--verify") {
		args = append(args, i.storage...)
	}
	if slices.Contains(args, "--switch") {
		args = append(args, "--apiservice-ca-file="+i.ca)
	}
	cmd := exec.CommandContext(ctx, i.Program(), args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

func (i *installation) try(t *testing.T, args ...string) (out string, err error) {
	t.Helper()
	cmd := i.command(t.Context(), args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	began := time.Now()
	err = cmd.Run()
	t.Logf("metal3-apiserver %s: %s\n%s%s", strings.Join(args, " "), time.Since(began).Round(100*time.Millisecond), &stdout, &stderr)
	if err != nil {
		err = fmt.Errorf("%w: %s", err, &stderr)
	}
	return stdout.String(), err
}

// run wants the command to succeed.
func (i *installation) run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := i.try(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// refused wants the command to refuse with a text.
func (i *installation) refused(t *testing.T, text string, args ...string) {
	t.Helper()
	if _, err := i.try(t, args...); err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("metal3-apiserver %s: %v, want an error with %q", strings.Join(args, " "), err, text)
	}
}
