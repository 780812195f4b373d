// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
)

// TestMigration checks that the migration components leave out the APIService and start no
// replicas, and that the Jobs have the same storage settings as the server.
func TestMigration(t *testing.T) {
	for installation, component := range map[string]string{".": "migration-external-etcd", "overlays/embedded-etcd": "migration-embedded-etcd"} {
		t.Run(component, func(t *testing.T) { checkMigration(t, migrationObjects(t, installation, component)) })
	}
}

// migrationObjects returns the objects of renderMigration.
func migrationObjects(t *testing.T, installation, component string) objects {
	t.Helper()
	return parse(t, renderMigration(t, installation, component))
}

// renderMigration renders an installation with a component for the migration.
func renderMigration(t *testing.T, installation, component string) []byte {
	t.Helper()
	rendered(t) // skips where there is no kubectl
	kubectl, err := filepath.Abs("../bin/kubectl")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "apiservice"), os.DirFS("apiservice")); err != nil {
		t.Fatal(err)
	}
	content := "resources: [../apiservice/" + installation + "]\ncomponents: [../apiservice/components/" + component + "]\n" +
		"images: [{name: metal3-apiserver, newName: images.example.com/metal3-apiserver, digest: \"" + siteDigest + "\"}]\n"
	site := filepath.Join(dir, "site")
	if err := os.Mkdir(site, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(site, "kustomization.yaml"), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), kubectl, "kustomize", site).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return out
}

func checkMigration(t *testing.T, objs objects) {
	t.Helper()
	if len(all[*apiService](objs)) > 0 {
		t.Error("there is an APIService: kube-apiserver would reset it for the CRDs, or would no longer serve their objects")
	}
	server := only[*appsv1.Deployment](t, objs)
	if *server.Spec.Replicas != 0 {
		t.Errorf("%d replicas", *server.Spec.Replicas)
	}
	jobs, accounts := all[*batchv1.CronJob](objs), sets.New[string]()
	jobs = slices.DeleteFunc(jobs, func(job *batchv1.CronJob) bool { return job.Name == "metal3-etcd-access" }) // that of the embedded etcd
	if len(jobs) != 5 {
		t.Errorf("%d jobs, want 5", len(jobs))
	}
	for _, job := range jobs {
		if !*job.Spec.Suspend {
			t.Errorf("%s is not suspended", job.Name)
		}
		pod := job.Spec.JobTemplate.Spec.Template.Spec
		container := pod.Containers[0]
		if command := container.Args[0]; command != "import" && command != "export" {
			t.Errorf("%s is %v", job.Name, container.Args)
		}
		checkMigrationPolicies(t, objs, job, server.Spec.Template.Spec.Containers[0])
		if container.Image != server.Spec.Template.Spec.Containers[0].Image {
			t.Errorf("%s is %s as %s", job.Name, container.Image, pod.ServiceAccountName)
		}
		if job.Name == "metal3-apiserver-verify" { // while the server runs, maybe on another node, where its volume cannot be mounted
			if len(container.Args) != 2 || len(pod.Volumes) > 0 || pod.ServiceAccountName != "metal3-apiserver-switch" {
				t.Errorf("%s is %v as %s, with the volumes %v", job.Name, container.Args, pod.ServiceAccountName, pod.Volumes)
			}
			continue
		}
		// The Jobs must use the same etcd as the server.
		for _, arg := range server.Spec.Template.Spec.Containers[0].Args {
			if (strings.HasPrefix(arg, "--etcd-") || strings.HasPrefix(arg, "--data-dir")) && !slices.Contains(container.Args, arg) {
				t.Errorf("%s has no %s", job.Name, arg)
			}
		}
		for _, mount := range server.Spec.Template.Spec.Containers[0].VolumeMounts {
			if !slices.ContainsFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == mount.MountPath }) {
				t.Errorf("%s has no %s", job.Name, mount.MountPath)
			}
		}
		if named[*corev1.ServiceAccount](objs, pod.ServiceAccountName) == nil || accounts.Has(pod.ServiceAccountName) {
			t.Errorf("%s runs as %s, which does not exist or is another one's", job.Name, pod.ServiceAccountName)
		}
		accounts.Insert(pod.ServiceAccountName)
	}
}

// checkMigrationPolicies checks that the pods of a Job accept no connections, and connect only to
// what they need.
func checkMigrationPolicies(t *testing.T, objs objects, job *batchv1.CronJob, server corev1.Container) {
	t.Helper()
	pod, isolated := labels.Set(job.Spec.JobTemplate.Spec.Template.Labels), false
	ports := sets.New[int32]()
	for _, policy := range all[*networkingv1.NetworkPolicy](objs) {
		selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
		if err != nil {
			t.Fatal(err)
		}
		if !selector.Matches(pod) {
			continue
		}
		isolated = isolated || len(policy.Spec.PolicyTypes) == 2
		if len(policy.Spec.Ingress) > 0 {
			t.Errorf("NetworkPolicy %s lets others connect to %s", policy.Name, job.Name)
		}
		for _, egress := range policy.Spec.Egress {
			for _, port := range egress.Ports {
				ports.Insert(port.Port.IntVal)
			}
		}
	}
	want := sets.New[int32](53, 5353, 443, 6443)
	if slices.ContainsFunc(server.Args, func(arg string) bool { return strings.HasPrefix(arg, "--etcd-servers=") }) {
		want.Insert(2379)
	}
	if !isolated || !ports.Equal(want) {
		t.Errorf("%s: isolated %t, may connect to %v, want %v", job.Name, isolated, sets.List(ports), sets.List(want))
	}
}

// TestMigrationPermissions checks that each Job has the permissions for its own part only, and that
// writes are restricted to names wherever names are known.
func TestMigrationPermissions(t *testing.T) {
	objs := migrationObjects(t, ".", "migration-external-etcd")
	granted := map[string][]string{}
	for _, binding := range all[*rbacv1.ClusterRoleBinding](objs) {
		if !strings.HasPrefix(binding.Name, "metal3-apiserver-migration") {
			continue
		}
		for _, subject := range binding.Subjects {
			granted[subject.Name] = append(granted[subject.Name], strings.TrimPrefix(binding.RoleRef.Name, "metal3-apiserver-migration-"))
		}
	}
	want := map[string][]string{
		"metal3-apiserver-import": {"read"},
		"metal3-apiserver-switch": {"read", "switch"},
		"metal3-apiserver-export": {"export", "read", "switch"},
		"metal3-apiserver-prune":  {"export", "read", "switch"},
	}
	for _, roles := range granted {
		slices.Sort(roles)
	}
	if diff := cmp.Diff(want, granted); diff != "" {
		t.Error(diff)
	}
	for _, role := range all[*rbacv1.ClusterRole](objs) {
		if !strings.HasPrefix(role.Name, "metal3-apiserver-migration") {
			continue
		}
		for _, rule := range role.Rules {
			writes := slices.ContainsFunc(rule.Verbs, func(verb string) bool { return verb != "get" && verb != "list" })
			switch {
			case writes && strings.HasSuffix(role.Name, "-read"):
				t.Errorf("%s writes: %v", role.Name, rule)
			case writes && rule.APIGroups[0] != "metal3.io" && rule.APIGroups[0] != "" && len(rule.ResourceNames) == 0 && !slices.Equal(rule.Verbs, []string{"create"}):
				t.Errorf("%s writes objects of any name: %v", role.Name, rule)
			}
		}
	}
}
