// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	metal3api "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// unusedAddress returns an address at which nothing listens.
func unusedAddress(t *testing.T) string {
	t.Helper()
	// The port of a socket that does not listen refuses connections, and nobody else can have it.
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(socket) })
	if err := syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	bound, err := syscall.Getsockname(socket)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", bound.(*syscall.SockaddrInet4).Port)
}

// kubeconfigOf writes a kubeconfig for a cluster at address, and returns its path.
func kubeconfigOf(t *testing.T, address string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{"apiVersion": "v1", "kind": "Config", "current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c"}}],
		"clusters": [{"name": "c", "cluster": {"server": "http://` + address + `"}}]}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestUnreachable checks that import and export report in a single line, with the address and the
// reason, that the cluster or etcd cannot be reached, and print no logs of libraries.
func TestUnreachable(t *testing.T) {
	address := unusedAddress(t)
	kubeconfig, empty := kubeconfigOf(t, address), t.TempDir()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections and never answers
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() }) // runs after the parallel subtests
	for name, test := range map[string]struct {
		args []string
		says []string
	}{
		"import without the cluster": {
			args: []string{"import", "--kubeconfig=" + kubeconfig, "--data-dir=" + empty},
			says: []string{"APIService v1alpha1.metal3.io", address, "connection refused"},
		},
		"export without the cluster": {
			args: []string{"export", "--kubeconfig=" + kubeconfig, "--data-dir=" + empty},
			says: []string{"APIService v1alpha1.metal3.io", address, "connection refused"},
		},
		"backup without etcd": {
			args: []string{"export", "--to=-", "--etcd-servers=http://" + address},
			says: []string{"etcd at http://" + address, "connection refused"},
		},
		"backup from something other than etcd": {
			args: []string{"export", "--to=-", "--etcd-servers=http://" + silent.Addr().String()},
			says: []string{"etcd at http://" + silent.Addr().String() + ": no answer within 5s"},
		},
		"backup without the certificate": {
			args: []string{"export", "--to=-", "--etcd-servers=https://" + address, "--etcd-cafile=" + filepath.Join(empty, "ca.crt")},
			says: []string{"etcd at https://" + address, "ca.crt: no such file"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, errs, code := command(t, test.args...)
			if code != 1 || strings.Count(errs, "\n") != 1 {
				t.Errorf("exit code %d, standard error %q", code, errs)
			}
			for _, part := range test.says {
				if !strings.Contains(errs, part) {
					t.Errorf("standard error %q does not contain %q", errs, part)
				}
			}
		})
	}
}

// TestBackup checks that a backup has IronicInstances before the hosts that name them, and that there is none of hosts that a later version has
// recorded, of which this one would drop a part.
func TestBackup(t *testing.T) {
	dir := t.TempDir()
	put := func(objects map[string]string) {
		etcd := startEtcd(t, dir)
		defer etcd.Close()
		for key, object := range objects {
			if _, err := clientOf(t, etcd).Put(t.Context(), "/registry/metal3-apiserver/"+key, object); err != nil {
				t.Fatal(err)
			}
		}
	}
	host := `{"apiVersion":"metal3.io/v1alpha1","kind":"BareMetalHost","metadata":{"name":"host-0","namespace":"metal3"},"status":{"record":{"epoch":%d}}}`
	put(map[string]string{
		"ironic.metal3-apiserver.io/ironicinstances/west": `{"apiVersion":"ironic.metal3-apiserver.io/v1alpha1","kind":"IronicInstance","metadata":{"name":"west"},"spec":{"endpoint":"https://west:6385"}}`,
		"metal3.io/baremetalhosts/metal3/host-0":          fmt.Sprintf(host, metal3api.RecordEpoch),
	})
	out, errs, code := command(t, "export", "--to=-", "--data-dir="+dir)
	instance, hosts := strings.Index(out, "kind: IronicInstance"), strings.Index(out, "kind: BareMetalHost")
	if code != 0 || instance < 0 || hosts < instance || !strings.Contains(out, "endpoint: https://west:6385") || !strings.Contains(out, "apiVersion: ironic.metal3-apiserver.io/v1alpha1") || !strings.Contains(out, "apiVersion: metal3.io/v1alpha1") {
		t.Errorf("exit code %d, standard output %q, standard error %q", code, out, errs)
	}
	put(map[string]string{"metal3.io/baremetalhosts/metal3/host-0": fmt.Sprintf(host, metal3api.RecordEpoch+1)})
	if out, errs, code := command(t, "export", "--to=-", "--data-dir="+dir); code == 0 || !strings.Contains(errs, "BareMetalHost metal3/host-0: a later version of metal3-apiserver") {
		t.Errorf("of a later version: exit code %d, standard output %q, standard error %q", code, out, errs)
	}
}

// TestBackupIsQuiet checks that the log of the embedded etcd is shown only with -v=1.
func TestBackupIsQuiet(t *testing.T) {
	to := filepath.Join(t.TempDir(), "backup.yaml")
	out, errs, code := command(t, "export", "--to="+to, "--data-dir="+t.TempDir())
	if want := "wrote 0 objects to " + to + "\n"; code != 0 || errs != "" || out != want {
		t.Errorf("exit code %d, standard output %q, want %q, standard error %q", code, out, want, errs)
	}
	if _, errs, code = command(t, "export", "--to=-", "--data-dir="+t.TempDir(), "-v=1"); code != 0 || !strings.Contains(errs, `"logger":"etcd"`) {
		t.Errorf("with -v=1: exit code %d, standard error %q", code, errs)
	}
}
