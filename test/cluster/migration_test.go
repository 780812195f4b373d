// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/metal3-io/metal3-apiserver/pkg/apiserver"
	"github.com/metal3-io/metal3-apiserver/pkg/migrate"
	"github.com/metal3-io/metal3-apiserver/test/crds"
	"github.com/metal3-io/metal3-apiserver/test/docs"
)

// TestMigrationExternalEtcd moves a cluster from the CRDs to two replicas with an external etcd, and back, by the Jobs of
// docs/migration.md.
func TestMigrationExternalEtcd(t *testing.T) {
	newMigration(t, "artifacts/apiservice", "migration-external-etcd").thereAndBack()
}

// TestMigrationEmbeddedEtcd does it with a server whose volume the Jobs open, too.
func TestMigrationEmbeddedEtcd(t *testing.T) {
	i := newMigration(t, "artifacts/apiservice/overlays/quick-start", "migration-embedded-etcd")
	i.createVolume()
	i.thereAndBack()
}

// migration is an installation in a cluster that serves metal3.io from CRDs.
type migration struct {
	*installation
	component string // the kustomize component of the Jobs
}

func newMigration(t *testing.T, resource, component string) *migration {
	t.Helper()
	i := &migration{newInstallation(t, resource, component == "migration-external-etcd"), component}
	client, err := dynamic.NewForConfig(i.node.Admin.Config)
	if err != nil {
		t.Fatal(err)
	}
	kinds, err := migrate.Kinds(apiserver.Scheme)
	if err != nil {
		t.Fatal(err)
	}
	if err := crds.Create(i.ctx, client, kinds); err != nil {
		t.Fatal(err)
	}
	i.kubectl(operator, "create", "-f", "-")
	i.createHost()
	for _, name := range []string{"retired", "spare"} {
		i.kubectl(`{"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": {"name": "`+name+`", "namespace": "metal3"}, "spec": {"online": true}}`, "create", "-f", "-")
	}
	return i
}

func (i *migration) thereAndBack() {
	i.t.Helper()
	before := i.hosts()
	for _, command := range i.commands() {
		switch command.Section {
		case "3. The namespace", "4. etcd", "5. Ironic's credentials", "6. The certificate":
			i.execute(command.Text)
		}
	}
	without := i.addComponent()
	i.followSections("1. Make a backup", "2. Stop the operator and its webhooks", "3. Install metal3-apiserver without starting it",
		"4. Copy", "5. Switch", "6. Verify")
	if after := i.hosts(); !maps.Equal(after, before) {
		i.t.Errorf("the hosts had the UIDs %v, and have %v", before, after)
	}
	i.waitAvailable()
	i.writeKustomization(without)
	i.followSections("7. Finish")
	i.kubectl("", "wait", "--for=condition=Available", "apiservice/v1alpha1.metal3.io", "apiservice/v1alpha1.ironic.metal3-apiserver.io", "--timeout=3m")

	i.kubectl("", "delete", "-n", "metal3", "baremetalhost/retired")
	delete(before, "retired")
	i.addComponent()
	i.execute("kubectl apply -k my-cluster")
	i.followSections("Go back")
	i.checkRemoved()
	if after := i.hosts(); !maps.Equal(after, before) {
		i.t.Errorf("back in the CRDs, the hosts have the UIDs %v, want %v", after, before)
	}
}

// expected is what the Jobs of docs/migration.md end with, by their names.
var expected = map[string]string{
	"import-1": "all UIDs and contents are the same",
	"switch-1": "metal3-apiserver manages the hosts from now on",
	"verify-1": "metal3-apiserver manages the hosts from now on",
	"export-1": "do not start the operator yet",
	"prune-1":  "the CRDs have everything that metal3-apiserver has",
}

// followSections runs the commands of sections of docs/migration.md, and checks what the Jobs log.
func (i *migration) followSections(sections ...string) {
	i.t.Helper()
	commands, err := docs.Commands("migration.md", 25)
	if err != nil {
		i.t.Fatal(err)
	}
	want := maps.Clone(expected)
	if i.component == "migration-embedded-etcd" {
		want["switch-1"] = "the switch is done, but metal3-apiserver does not answer yet"
	}
	for _, section := range sections {
		for _, command := range commands {
			if command.Section != section || i.isForOthers(command) {
				continue
			}
			stdout, stderr := i.run(command.Text)
			if strings.Contains(stderr, "Warning") && !strings.Contains(stderr, "missing the kubectl.kubernetes.io/last-applied-configuration annotation") {
				i.t.Errorf("%s warns: %s", command.Text, stderr)
			}
			if _, job, logs := strings.Cut(command.Text, "-f job/"); logs {
				job, _, _ = strings.Cut(job, " ")
				if want[job] == "" || !strings.Contains(stdout, want[job]) {
					i.t.Fatalf("the Job %s does not end with %q", job, want[job])
				}
			}
		}
	}
}

// isForOthers reports whether a command is for installations with the other etcd.
func (i *migration) isForOthers(command docs.Command) bool {
	switch command.Section {
	case "5. Switch":
		return i.component == "migration-embedded-etcd" && !strings.Contains(command.Text, "switch-1")
	case "6. Verify":
		return i.component == "migration-external-etcd"
	}
	return false
}

// addComponent adds the component to the kustomization, and returns what that was without it.
func (i *migration) addComponent() (without string) {
	i.t.Helper()
	line, err := docs.MigrationComponent()
	if err != nil {
		i.t.Fatal(err)
	}
	content, err := os.ReadFile(i.kustomization())
	if err != nil {
		i.t.Fatal(err)
	}
	line = strings.Replace(line, "/migration-external-etcd ", "/"+i.component+" ", 1)
	with := strings.Replace(string(content), "images:\n", line+"images:\n", 1)
	if !strings.Contains(with, "/"+i.component) {
		i.t.Fatalf("the component is not in %s", with)
	}
	i.writeKustomization(with)
	return string(content)
}

func (i *migration) writeKustomization(content string) {
	i.t.Helper()
	if err := os.WriteFile(i.kustomization(), []byte(content), 0o600); err != nil {
		i.t.Fatal(err)
	}
}

func (i *migration) kustomization() string {
	return filepath.Join(i.dir, "my-cluster", "kustomization.yaml")
}

// hosts returns the UIDs of the hosts, whoever serves them.
func (i *migration) hosts() map[string]types.UID {
	i.t.Helper()
	list, err := i.metal3.Metal3V1alpha1().BareMetalHosts("metal3").List(i.ctx, metav1.ListOptions{})
	if err != nil {
		i.t.Fatal(err)
	}
	uids := map[string]types.UID{}
	for _, host := range list.Items {
		uids[host.Name] = host.UID
	}
	return uids
}

// operator is what docs/migration.md stops. Neither program is here.
const operator = `
apiVersion: v1
kind: Namespace
metadata: {name: baremetal-operator-system}
---
apiVersion: v1
kind: Namespace
metadata: {name: capm3-system}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: baremetal-operator-controller-manager, namespace: baremetal-operator-system}
spec:
  replicas: 1
  selector: {matchLabels: {app: manager}}
  template:
    metadata: {labels: {app: manager}}
    spec: {containers: [{name: manager, image: "pause.invalid/pause:v1"}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: capm3-controller-manager, namespace: capm3-system}
spec:
  replicas: 1
  selector: {matchLabels: {app: manager}}
  template:
    metadata: {labels: {app: manager}}
    spec: {containers: [{name: manager, image: "pause.invalid/pause:v1"}]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: baremetal-operator-validating-webhook-configuration}
webhooks:
- name: baremetalhost.metal3.io
  clientConfig: {service: {name: baremetal-operator-webhook-service, namespace: baremetal-operator-system, path: /validate}}
  rules: [{apiGroups: [metal3.io], apiVersions: [v1alpha1], operations: [UPDATE], resources: [baremetalhosts]}]
  failurePolicy: Ignore
  sideEffects: None
  admissionReviewVersions: [v1]
`
