// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// trustingCluster answers kubectl what it asks to get an APIService.
type trustingCluster struct {
	caBundle   atomic.Pointer[[]byte] // nil without metal3-apiserver
	kubeconfig string
}

func (c *trustingCluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const group, version = "apiregistration.k8s.io", "v1"
	var answer any
	switch r.URL.Path {
	case "/api":
		answer = metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{}}
	case "/apis":
		preferred := metav1.GroupVersionForDiscovery{GroupVersion: group + "/" + version, Version: version}
		answer = metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{{
			Name: group, Versions: []metav1.GroupVersionForDiscovery{preferred}, PreferredVersion: preferred,
		}}}
	case "/apis/" + group + "/" + version:
		answer = metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: group + "/" + version, APIResources: []metav1.APIResource{{
			Name: "apiservices", SingularName: "apiservice", Kind: "APIService", Verbs: metav1.Verbs{"get", "list"},
		}}}
	case "/apis/" + group + "/" + version + "/apiservices/v1alpha1.metal3.io":
		if bundle := c.caBundle.Load(); bundle != nil {
			answer = map[string]any{
				"kind": "APIService", "apiVersion": group + "/" + version, "metadata": map[string]any{"name": "v1alpha1.metal3.io"},
				"spec": map[string]any{"group": "metal3.io", "version": "v1alpha1", "caBundle": *bundle},
			}
			break
		}
		fallthrough
	default:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		answer = metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

func (c *trustingCluster) writeKubeconfig(t *testing.T, url string) {
	t.Helper()
	c.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	content := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c"}}],"clusters":[{"name":"c","cluster":{"server":%q}}]}`, url)
	if err := os.WriteFile(c.kubeconfig, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// certsFolder is the folder of make-certs.sh in a checkout.
type certsFolder struct {
	t   *testing.T
	dir string
}

func newCertsFolder(t *testing.T, from ...string) *certsFolder {
	t.Helper()
	f := &certsFolder{t, t.TempDir()}
	for _, path := range append(from, "apiservice/components/self-signed/make-certs.sh") {
		content, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(filepath.Join(f.dir, filepath.Base(path)), content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func (f *certsFolder) path(name string) string { return filepath.Join(f.dir, name) }

// read returns a file, which is empty if it does not exist.
func (f *certsFolder) read(name string) []byte {
	content, _ := os.ReadFile(f.path(name))
	return content
}

// run runs make-certs.sh with nothing but openssl, kubectl and the usual programs.
func (f *certsFolder) run(c *trustingCluster, args ...string) (says string, err error) {
	f.t.Helper()
	bin, err := filepath.Abs("../bin")
	if err != nil {
		f.t.Fatal(err)
	}
	cmd := exec.CommandContext(f.t.Context(), "sh", append([]string{f.path("make-certs.sh")}, args...)...)
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "KUBECONFIG="+c.kubeconfig, "KUBECACHEDIR="+f.t.TempDir())
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// trusts checks that the authorities of the folder, of which there are so many, have signed these certificates.
func (f *certsFolder) trusts(authorities int, certificates ...[]byte) {
	f.t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(f.read("ca.crt")) || bytes.Count(f.read("ca.crt"), []byte("BEGIN CERTIFICATE")) != authorities {
		f.t.Errorf("want %d authorities: %s", authorities, f.read("ca.crt"))
	}
	for i, certificate := range certificates {
		block, _ := pem.Decode(certificate)
		if block == nil {
			f.t.Fatalf("certificate %d: %q", i, certificate)
		}
		parsed, err := x509.ParseCertificate(block.Bytes)
		if err == nil {
			_, err = parsed.Verify(x509.VerifyOptions{Roots: pool, DNSName: name + "." + namespace + ".svc"})
		}
		if err != nil {
			f.t.Errorf("certificate %d would be refused: %v", i, err)
		}
	}
}

// mustRun checks that another certificate is made, which can be applied without an interruption: the authorities that
// kube-apiserver trusts from then on have signed it, and what the pods have until it gets there.
func (f *certsFolder) mustRun(c *trustingCluster, authorities int, served []byte, args ...string) (authority, certificate []byte) {
	f.t.Helper()
	before := f.read("tls.crt")
	if says, err := f.run(c, args...); err != nil {
		f.t.Fatalf("make-certs.sh %v: %v\n%s", args, err, says)
	}
	certificate = f.read("tls.crt")
	if bytes.Equal(certificate, before) {
		f.t.Error("the certificate is the former one")
	}
	f.trusts(authorities, certificate)
	if served != nil {
		f.trusts(authorities, served)
	}
	return f.read("ca.crt"), certificate
}

// mustRefuse checks that nothing is made.
func (f *certsFolder) mustRefuse(c *trustingCluster, why string, args ...string) {
	f.t.Helper()
	before := [][]byte{f.read("ca.key"), f.read("ca.crt"), f.read("tls.crt"), f.read("tls.key")}
	says, err := f.run(c, args...)
	if err == nil || !strings.Contains(says, why) {
		f.t.Errorf("make-certs.sh %v: %v, want %q\n%s", args, err, why, says)
	}
	for i, name := range []string{"ca.key", "ca.crt", "tls.crt", "tls.key"} {
		if !bytes.Equal(f.read(name), before[i]) {
			f.t.Errorf("make-certs.sh has refused, but made %s", name)
		}
	}
}

// TestMakeCerts checks that whatever make-certs.sh makes for a cluster that has an authority can be applied without an
// interruption, also in a checkout that does not have its key.
func TestMakeCerts(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		skipWithout(t, "make-certs.sh needs openssl: %v", err)
	}
	if _, err := os.Stat("../bin/kubectl"); err != nil {
		skipWithout(t, "%v: build it with hack/tools/build.sh kubectl", err)
	}
	cluster, away := &trustingCluster{}, &trustingCluster{}
	server := httptest.NewServer(cluster)
	defer server.Close()
	cluster.writeKubeconfig(t, server.URL)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	away.writeKubeconfig(t, gone.URL)

	first := newCertsFolder(t)
	first.mustRefuse(cluster, "usage", "--new")
	authority, served := first.mustRun(cluster, 1, nil)
	cluster.caBundle.Store(&authority)
	for _, c := range []*trustingCluster{cluster, away} {
		if renewed, _ := first.mustRun(c, 1, served); !bytes.Equal(renewed, authority) {
			t.Error("a renewal has made another authority")
		}
	}
	newCertsFolder(t).mustRefuse(cluster, "Copy ca.key and ca.crt")
	newCertsFolder(t, first.path("ca.crt")).mustRefuse(cluster, "Copy ca.key and ca.crt")
	newCertsFolder(t, first.path("ca.key"), first.path("ca.crt")).mustRun(cluster, 1, served)
	newCertsFolder(t).mustRefuse(away, "cannot be asked")
	newCertsFolder(t).mustRun(away, 1, nil, "--new-authority")
	newCertsFolder(t, first.path("ca.key"), first.path("ca.crt")).mustRun(away, 2, served, "--new-authority")

	second := newCertsFolder(t)
	both, replaced := second.mustRun(cluster, 2, served, "--new-authority")
	second.mustRun(cluster, 2, served) // it is not applied yet
	cluster.caBundle.Store(&both)
	second.mustRun(cluster, 2, replaced)
	first.mustRefuse(cluster, "Copy ca.key and ca.crt") // its authority is the former one now
	newCertsFolder(t).mustRun(cluster, 2, replaced, "--new-authority")
}
