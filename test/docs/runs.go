// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"path/filepath"
	"strings"

	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// Run says which test runs commands of a page.
type Run struct {
	Page string
	// Begins is how the commands begin. Empty are all that no other Run of the page is about.
	Begins string
	// Test is the test's name. Empty says that none does.
	Test string
	// Why says, unless the test runs the very command, what it does instead, or why there is none.
	Why string
}

// The reasons why no test runs a command.
const (
	needsRegistry  = "there is no registry"
	needsOpenStack = "the client of OpenStack is not installed; the tests ask Ironic for the same"
	needsMembers   = "three members of etcd need three nodes; the programs are run by TestPartsDie and TestMoved"
	sameFlags      = "the program with the same arguments"
	likeMembers    = "the program, without pods"
	ofDevelopers   = "it runs tests itself"
)

// Runs are all of them, by page.
var Runs = []Run{
	{"README.md", "make demo", "TestTalk", "hack/demo.sh, without make"},
	{"README.md", "kubectl get baremetalhosts", "TestWhatUsersType", ""},
	{"README.md", "kubectl get baremetalhost openshift-worker-1", "TestWebhookDown", "with another host"},
	{"README.md", "kubectl patch bmh", "TestWhatUsersType", "with another image"},
	{"README.md", "kubectl get bmh", "TestWhatUsersType", ""},
	{"README.md", "curl", "TestTalk", "with another host"},
	{"README.md", "make test", "", ofDevelopers},
	{"actions.md", "", "TestPages", ""},
	{"console.md", "kubectl bmh console", "TestPluginConsole", ""},
	{"design.md", "kubectl -> ", "", "it is a picture"},
	{"gitops.md", "kubectl patch configmap", "TestInstall", ""},
	{"high-availability.md", "", "TestPartsDie", likeMembers},
	{"high-availability.md", "kubectl create job -n metal3-system metal3-etcd-access", "TestTutorialsOnACluster", "of the embedded etcd"},
	{"high-availability.md", "kubectl wait -n metal3-system --for=jsonpath='{.status.ready}'=1", "TestTutorialsOnACluster", "of the embedded etcd"},
	{"high-availability.md", "kubectl delete job -n metal3-system metal3-etcd-access", "TestTutorialsOnACluster", "of the embedded etcd"},
	{"high-availability.md", "kubectl exec -n metal3-system job/metal3-etcd-access -- /metal3-apiserver etcd snapshot save", "TestMoved", sameFlags},
	{"high-availability.md", "kubectl exec -n metal3-system job/metal3-etcd-access -- /metal3-apiserver etcd snapshot read", "TestSnapshot", sameFlags},
	{"high-availability.md", "kubectl rollout status", "", needsMembers},
	{"high-availability.md", "kubectl delete pvc", "", needsMembers},
	{"high-availability.md", "kubectl delete pod", "", needsMembers},
	{"high-availability.md", "kubectl scale -n metal3-system deployment/metal3-apiserver statefulset", "", needsMembers},
	{"high-availability.md", "kubectl wait -n metal3-system --for=delete pod -l app.kubernetes.io/name=metal3-etcd", "", needsMembers},
	{"high-availability.md", "for i in", "", needsMembers},
	{"high-availability.md", "run() {", "", needsMembers},
	{"high-availability.md", "members=", "", needsMembers},
	{"high-availability.md", "kubectl create job -n metal3-system metal3-etcd-last", "", needsMembers},
	{"high-availability.md", "kubectl wait -n metal3-system --for=condition=Complete", "", needsMembers},
	{"install.md", "", "TestInstall", ""},
	{"install.md", "docker build", "TestImage", "with buildah"},
	{"install.md", "docker push", "", needsRegistry},
	{"kinds.md", "kubectl create rolebinding metal3-apiserver-secret-copies", "TestTutorials", "with another namespace"},
	{"life.md", "kubectl create --raw", "TestPages", ""},
	{"life.md", "kubectl bmh pause", "TestPause", ""},
	{"life.md", "kubectl bmh unpause", "TestPause", ""},
	{"life.md", "clusterctl move", "TestClusterctlMove", ""},
	{"life.md", "openstack", "", needsOpenStack},
	{"life.md", "kubectl annotate", "TestPages", ""},
	{"life.md", "kubectl wait", "TestPages", ""},
	{"migration.md", "", "TestMigrationExternalEtcd", ""},
	{"migration.md", "kubectl delete lease", "", "the migration's own tests do it between two of them"},
	{"monitoring.md", "kubectl apply -k", "TestInstall", ""},
	{"monitoring.md", "kubectl create", "TestInstall", ""},
	{"monitoring.md", "kubectl get bmh", "TestPages", ""},
	{"monitoring.md", "kubectl bmh why", "TestPages", ""},
	{"performance.md", "", "", ofDevelopers},
	{"plugin.md", "make plugin", "TestTutorials", "go build, without make"},
	{"plugin.md", "cp ", "", "it writes to /usr/local"},
	{"plugin.md", "tar ", "TestKrew", "to another folder"},
	{"plugin.md", "kubectl bmh wait", "TestTutorials", "with another host"},
	{"plugin.md", "kubectl bmh power", "TestTalk", "with another host"},
	{"plugin.md", "kubectl bmh create", "TestPlugin", "with a file for the password"},
	{"plugin.md", "kubectl bmh candidates", "TestPluginAdopts", ""},
	{"plugin.md", "kubectl bmh adopt", "TestPluginAdopts", "with a file for the password"},
	{"releases.md", "mkdir", "TestInstall", ""},
	{"releases.md", "tar", "TestInstall", ""},
	{"releases.md", "sha256sum", "", "a release is made by hand"},
	{"releases.md", "git checkout", "", "a release is made by hand"},
	{"releases.md", "REPOSITORY=", "", "a release is made by hand, twice with REPRODUCE=1"},
	{"releases.md", "diff", "", "a release is made by hand"},
	{"releases.md", "skopeo", "", needsRegistry},
	{"releases.md", "buildah pull", "TestImageLayout", "the archive is read by containerd in test/cluster"},
	{"releases.md", "podman", "", "podman is not installed"},
	{"releases.md", "ctr ", "TestQuickStart", ""},
	{"releases.md", "kubectl create namespace", "TestInstall", ""},
	{"releases.md", "helm ", "TestChart", ""},
	{"releases.md", "kubectl apply -f before.yaml", "TestOLM", "its objects are compared"},
	{"restore.md", "", "TestTutorialsOnACluster", "with another namespace"},
	{"robustness.md", "", "", ofDevelopers},
	{"security.md", "", "TestPages", ""},
	{"settings.md", "", "TestPages", ""},
	{"several-ironics.md", "kubectl get baremetalhosts", "TestSeveralIronics", ""},
	{"several-ironics.md", "kubectl get ironics", "TestInstall", ""},
	{"several-ironics.md", "kubectl bmh transfer", "TestTransfer", ""},
	{"several-ironics.md", "openstack", "", needsOpenStack},
	{"several-ironics.md", "kubectl create role", "TestInstall", ""},
	{"talk.md", "", "TestTalk", ""},
	{"troubleshooting.md", "kubectl get apiservice", "TestInstall", ""},
	{"troubleshooting.md", "kubectl -n metal3-system get pods", "TestInstall", ""},
	{"troubleshooting.md", "kubectl -n metal3-system logs", "TestQuickStart", ""},
	{"troubleshooting.md", "kubectl -n metal3-system port-forward", "", "it runs in the background; the tests ask for /readyz directly"},
	{"troubleshooting.md", "curl", "", "it needs the command before"},
	{"troubleshooting.md", "kubectl annotate bmh", "TestPages", ""},
	{"troubleshooting.md", "kubectl wait bmh", "TestPages", ""},
	{"troubleshooting.md", "kubectl patch bmh", "TestPages", ""},
	{"troubleshooting.md", "kubectl patch baremetalhost", "TestPages", ""},
	{"troubleshooting.md", "kubectl patch secret", "TestPages", ""},
	{"troubleshooting.md", "kubectl create clusterrolebinding", "TestInstall", ""},
	{"troubleshooting.md", "kubectl wait --for=delete namespace", "TestInstall", ""},
	{"troubleshooting.md", "kubectl delete clusterrolebinding", "TestInstall", ""},
	{"troubleshooting.md", "for crd", "TestCarriers", "the same change of the CRDs"},
	{"troubleshooting.md", "metal3-apiserver etcd maintain", "TestMaintain", sameFlags},
	{"troubleshooting.md", "kubectl exec", "TestTutorialsOnACluster", "without --keep-old"},
	{"troubleshooting.md", "kubectl exec -n metal3-system deploy/metal3-apiserver -- /metal3-apiserver etcd snapshot discard", "TestDiscard", sameFlags},
	{"troubleshooting.md", "kubectl scale", "TestTutorialsOnACluster", ""},
	{"troubleshooting.md", "kubectl wait -n metal3-system", "TestTutorialsOnACluster", ""},
	{"troubleshooting.md", "kubectl create job", "TestTutorialsOnACluster", ""},
	{"troubleshooting.md", "kubectl delete job", "TestTutorialsOnACluster", ""},
	{"ui.md", "kubectl bmh ui", "TestTalk", ""},
	{"ui.md", "ssh", "", "it needs another machine"},
	{"tutorials/cluster-api.md", "", "TestClusterAPITutorial", ""},
	{"tutorials/first-host.md", "", "TestTutorials", ""},
	{"tutorials/move.md", "", "TestMoveTutorial", ""},
	{"tutorials/rack.md", "", "TestTutorials", ""},
	{"tutorials/restore.md", "", "TestTutorialsOnACluster", ""},
	{"tutorials/tenants.md", "", "TestTutorials", ""},
	{"tutorials/upgrade.md", "", "TestTutorialsOnACluster", ""},
}

// All returns the commands of the README and of all pages for users, by their pages.
func All() (map[string][]Command, error) {
	root, err := testbed.RepoRoot()
	if err != nil {
		return nil, err
	}
	all := map[string][]Command{}
	for _, pattern := range []string{"README.md", "docs/*.md", "docs/tutorials/*.md"} {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			name, err := filepath.Rel(root, path)
			if err != nil {
				return nil, err
			}
			content, err := read(filepath.Join("..", name))
			if err != nil {
				return nil, err
			}
			if commands := commandsOf(content); len(commands) > 0 {
				all[strings.TrimPrefix(filepath.ToSlash(name), "docs/")] = commands
			}
		}
	}
	return all, nil
}
