package artifacts

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// TestMigration checks that the migration components leave out the APIService and start no
// replicas, and that the Jobs have the same storage settings as the server.
func TestMigration(t *testing.T) {
	rendered(t) // skips where there is no kubectl
	kubectl, err := filepath.Abs("../bin/kubectl")
	if err != nil {
		t.Fatal(err)
	}
	for installation, component := range map[string]string{".": "migration-external-etcd", "overlays/embedded-etcd": "migration-embedded-etcd"} {
		t.Run(component, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(filepath.Join(dir, "apiservice"), os.DirFS("apiservice")); err != nil {
				t.Fatal(err)
			}
			content := "resources: [../apiservice/" + installation + "]\ncomponents: [../apiservice/components/" + component + "]\n" +
				"images: [{name: metal3-apiserver, newName: images.example.com/metal3-apiserver, newTag: v1.2.3}]\n"
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
			checkMigration(t, parse(t, out))
		})
	}
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
	jobs := all[*batchv1.CronJob](objs)
	if len(jobs) != 4 {
		t.Errorf("%d jobs, want 4", len(jobs))
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
		if container.Image != server.Spec.Template.Spec.Containers[0].Image || pod.ServiceAccountName != "metal3-apiserver-migration" {
			t.Errorf("%s is %s as %s", job.Name, container.Image, pod.ServiceAccountName)
		}
	}
}
