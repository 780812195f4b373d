// SPDX-License-Identifier: Apache-2.0

// Package artifacts tests the manifests in apiservice as kubectl renders them.
package artifacts

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	kjson "sigs.k8s.io/json"
)

// These types have the fields that the manifests use. Their original Go types are in
// modules that nothing else in this project needs.
type (
	apiService struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct {
			Group                 string `json:"group"`
			Version               string `json:"version"`
			GroupPriorityMinimum  int32  `json:"groupPriorityMinimum"`
			VersionPriority       int32  `json:"versionPriority"`
			InsecureSkipTLSVerify bool   `json:"insecureSkipTLSVerify"`
			CABundle              []byte `json:"caBundle"`
			Service               struct {
				Namespace string `json:"namespace"`
				Name      string `json:"name"`
				Port      int32  `json:"port"`
			} `json:"service"`
		} `json:"spec"`
	}
	certificate struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct {
			IsCA        bool            `json:"isCA"`
			CommonName  string          `json:"commonName"`
			DNSNames    []string        `json:"dnsNames"`
			Usages      []string        `json:"usages"`
			SecretName  string          `json:"secretName"`
			Duration    metav1.Duration `json:"duration"`
			RenewBefore metav1.Duration `json:"renewBefore"`
			PrivateKey  struct {
				Algorithm      string `json:"algorithm"`
				Size           int    `json:"size"`
				RotationPolicy string `json:"rotationPolicy"`
			} `json:"privateKey"`
			IssuerRef struct {
				Group string `json:"group"`
				Kind  string `json:"kind"`
				Name  string `json:"name"`
			} `json:"issuerRef"`
		} `json:"spec"`
	}
	issuer struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct {
			SelfSigned *struct{} `json:"selfSigned"`
			CA         *struct {
				SecretName string `json:"secretName"`
			} `json:"ca"`
		} `json:"spec"`
	}
)

// objects are the objects of a rendered kustomization.
type objects []metav1.Object

// all returns the objects of one type.
func all[T metav1.Object](objs objects) []T {
	var found []T
	for _, obj := range objs {
		if o, ok := obj.(T); ok {
			found = append(found, o)
		}
	}
	return found
}

// only returns the only object of a type.
func only[T metav1.Object](t *testing.T, objs objects) T {
	t.Helper()
	found := all[T](objs)
	if len(found) != 1 {
		t.Fatalf("%d objects of type %T, want 1", len(found), *new(T))
	}
	return found[0]
}

// named returns the object with a type and a name, or nil if there is none.
func named[T metav1.Object](objs objects, name string) (none T) {
	for _, o := range all[T](objs) {
		if o.GetName() == name {
			return o
		}
	}
	return none
}

// siteImage is the image that a user's kustomization names, by its digest.
const (
	siteDigest = "sha256:f2ca1bb6c7e907d06dafe4687e579fce76b37e4e93b7605022da52e6ccc26fd2"
	siteImage  = "images.example.com/metal3-apiserver@" + siteDigest
)

// site is a user's kustomization that uses the default installation and adds all optional
// components.
const site = `
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
- ../apiservice
components:
- ../apiservice/components/aggregated-roles
- ../apiservice/components/ironic-CREDENTIALS
- ../apiservice/components/ironic-ca
- ../apiservice/components/openshift
- ../apiservice/components/restrict-urls
images:
- name: metal3-apiserver
  newName: images.example.com/metal3-apiserver
  digest: ` + siteDigest + `
configMapGenerator:
- name: metal3-apiserver-config
  namespace: metal3-system
  behavior: merge
  literals:
  - IRONIC_ENDPOINT=https://ironic.example.com
  - ETCD_SERVERS=https://etcd-0.example.com:2379,https://etcd-1.example.com:2379
`

// certainNamespaces is an installation for two namespaces. What these need is in the
// kustomization team-a.
const certainNamespaces = `
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [../apiservice, ../team-a]
components: [../apiservice/components/namespaces]
configMapGenerator:
- name: metal3-apiserver-config
  namespace: metal3-system
  behavior: merge
  literals: ["NAMESPACES=metal3,team-a"]
`

// installations renders, once, all kustomizations that are complete installations: the
// default, the overlays, two variants of site, and certainNamespaces. It works on a copy, in which it runs
// make-certs.sh. If a program that it needs is missing, the error is a skip.
var installations = sync.OnceValues(func() (manifests map[string][]byte, err error) {
	kubectl, err := filepath.Abs("../bin/kubectl")
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(kubectl); err != nil {
		return nil, skip(err.Error() + ": build it with hack/tools/build.sh kubectl")
	}
	if _, err := exec.LookPath("openssl"); err != nil {
		return nil, skip("make-certs.sh needs openssl: " + err.Error())
	}
	dir, err := os.MkdirTemp("", "artifacts")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	folders, err := folders(dir)
	if err != nil {
		return nil, err
	}
	manifests = map[string][]byte{}
	for name, folder := range folders {
		cmd := exec.Command(kubectl, "kustomize", folder)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil || stderr.Len() > 0 { // kubectl warns about deprecated fields
			return nil, fmt.Errorf("kubectl kustomize %s: %w\n%s", name, err, &stderr)
		}
		manifests[name] = out
	}
	return manifests, nil
})

// skip is the reason why the tests cannot run on this machine.
type skip string

func (s skip) Error() string { return string(s) }

// skipWithout ends a test because something that it needs is not on this machine. With -short, it is skipped, and otherwise it
// fails.
func skipWithout(t *testing.T, format string, args ...any) {
	t.Helper()
	if testing.Short() {
		t.Skipf(format, args...)
	}
	t.Fatalf(format, args...)
}

// skipShort skips a test with -short, because it starts a control plane or builds the image.
func skipShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts programs: make test-all runs it")
	}
}

// folders creates the kustomizations to render in dir, and returns their paths by name.
func folders(dir string) (map[string]string, error) {
	base := filepath.Join(dir, "apiservice")
	if err := os.CopyFS(base, os.DirFS("apiservice")); err != nil {
		return nil, err
	}
	script := filepath.Join(base, "components/self-signed/make-certs.sh")
	cmd := exec.Command("sh", script, "--new-authority")
	cmd.Env = append(os.Environ(), "KUBECONFIG=/dev/null") // no cluster is asked
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("make-certs.sh: %w\n%s", err, out)
	}
	found := map[string]string{"default": base}
	overlays, err := filepath.Glob(filepath.Join(base, "overlays/*"))
	if err != nil {
		return nil, err
	}
	for _, overlay := range overlays {
		found[filepath.Base(overlay)] = overlay
	}
	for name, content := range map[string]string{
		"site-basic-auth": strings.ReplaceAll(site, "CREDENTIALS", "basic-auth"),
		"site-keystone":   strings.ReplaceAll(site, "CREDENTIALS", "keystone"),
		"namespaces":      certainNamespaces,
		"team-a":          "namespace: team-a\nresources: [../apiservice/managed-namespace, ../apiservice/claimed-namespace]\n",
	} {
		found[name] = filepath.Join(dir, name)
		if err := os.Mkdir(found[name], 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(found[name], "kustomization.yaml"), []byte(content), 0o644); err != nil {
			return nil, err
		}
	}
	delete(found, "team-a") // it is a part of another one
	return found, nil
}

// rendered returns the manifests of each installation, by name.
func rendered(t *testing.T) map[string][]byte {
	t.Helper()
	manifests, err := installations()
	if reason := skip(""); errors.As(err, &reason) {
		skipWithout(t, "%v", reason)
	}
	if err != nil {
		t.Fatal(err)
	}
	return manifests
}

// forEach runs a test on each installation.
func forEach(t *testing.T, test func(t *testing.T, objs objects)) {
	for name, manifests := range rendered(t) {
		t.Run(name, func(t *testing.T) { test(t, parse(t, manifests)) })
	}
}

// parse decodes manifests, and fails the test on a field that its kind does not have.
func parse(t *testing.T, manifests []byte) objects {
	t.Helper()
	strict := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifests)))
	var objs objects
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objs
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := yaml.ToJSON(document)
		if err != nil {
			t.Fatal(err)
		}
		obj, err := decode(strict, content)
		if err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		objs = append(objs, obj)
	}
}

func decode(strict runtime.Decoder, content []byte) (metav1.Object, error) {
	var kind metav1.TypeMeta
	if err := kjson.UnmarshalCaseSensitivePreserveInts(content, &kind); err != nil {
		return nil, err
	}
	var obj metav1.Object
	switch kind.APIVersion + " " + kind.Kind {
	case "apiregistration.k8s.io/v1 APIService":
		obj = &apiService{}
	case "cert-manager.io/v1 Certificate":
		obj = &certificate{}
	case "cert-manager.io/v1 Issuer":
		obj = &issuer{}
	default:
		decoded, _, err := strict.Decode(content, nil, nil)
		if err != nil {
			return nil, err
		}
		return decoded.(metav1.Object), nil
	}
	wrong, err := kjson.UnmarshalStrict(content, obj)
	return obj, errors.Join(append(wrong, err)...)
}
