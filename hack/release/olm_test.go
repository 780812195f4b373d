// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// olmManifest has what a bundle needs at least. artifacts/olm_test.go makes one of the default installation.
const olmManifest = `apiVersion: v1
kind: ConfigMap
metadata: {name: config, namespace: metal3-system}
data: {IRONIC_ENDPOINT: "http://ironic"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: metal3-apiserver, namespace: metal3-system}
spec:
  template:
    spec:
      serviceAccountName: metal3-apiserver
      containers:
      - name: metal3-apiserver
        args: [--tls-cert-file=/serving/tls.crt, --tls-private-key-file=/serving/tls.key]
        env: [{name: IRONIC_ENDPOINT, valueFrom: {configMapKeyRef: {name: config, key: IRONIC_ENDPOINT}}}]
        ports: [{containerPort: 6443}]
        volumeMounts: [{name: serving, mountPath: /serving}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: leases, namespace: metal3-system}
rules: [{apiGroups: [coordination.k8s.io], resources: [leases], verbs: [create]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: binding, namespace: metal3-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: leases}
subjects: [{kind: ServiceAccount, name: metal3-apiserver, namespace: metal3-system}]
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1alpha1.metal3.io}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1alpha1.ironic.metal3-apiserver.io}
`

// TestOLMRefuses checks that an installation of which a bundle would lack something, or have too much, makes none.
func TestOLMRefuses(t *testing.T) {
	for name, test := range map[string]struct{ old, new, want string }{
		"nothing":                {"", "", ""},
		"a new kind":             {"kind: ConfigMap", "kind: CronJob", "the CronJob config: hack/release/olm.go does not say what becomes of it"},
		"no configuration":       {"kind: ConfigMap", "kind: Service", "no ConfigMap"},
		"another APIService":     {"v1alpha1.metal3.io", "v1beta1.metal3.io", "v1beta1.metal3.io"},
		"another subject":        {"name: metal3-apiserver, namespace: metal3-system}]", "name: default, namespace: metal3-system}]", "the binding binding is of"},
		"a role elsewhere":       {"name: leases}\nsubjects", "name: elsewhere}\nsubjects", "there is no Role elsewhere"},
		"another namespace":      {"name: binding, namespace: metal3-system", "name: binding, namespace: kube-system", "in kube-system"},
		"no certificate":         {"volumeMounts: [{name: serving, ", "volumeMounts: [{name: other, ", `no volume "serving"`},
		"a key elsewhere":        {"=/serving/tls.key", "=/other/tls.key", "1 arguments begin with /serving/tls."},
		"another ConfigMap":      {"configMapKeyRef: {name: config", "configMapKeyRef: {name: other", "IRONIC_ENDPOINT is not from the ConfigMap config"},
		"no value":               {"data: {IRONIC_ENDPOINT", "data: {IRONIC", "has no IRONIC_ENDPOINT"},
		"a field that is no one": {"serviceAccountName:", "serviceAcountName:", "serviceAcountName"},
	} {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(olmManifest, test.old) {
				t.Fatalf("there is no %q: the test is broken", test.old)
			}
			folder := t.TempDir()
			manifest := filepath.Join(folder, "manifest.yaml")
			if err := os.WriteFile(manifest, []byte(strings.Replace(olmManifest, test.old, test.new, 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			err := writeOLM(folder, "v0.1.0", manifest)
			if test.want == "" {
				if err != nil {
					t.Error(err)
				}
			} else if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("the error is %v, want %q", err, test.want)
			}
			if _, missing := os.Stat(filepath.Join(folder, "bundle")); (missing == nil) != (err == nil) {
				t.Errorf("the bundle: %v; the error: %v", missing, err)
			}
		})
	}
}
