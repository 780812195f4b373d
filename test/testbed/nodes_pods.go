// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// servingCA is where metal3-apiserver's manifests mount the certificate of the servers' authority.
const servingCA = "/etc/metal3-apiserver/serving/ca.crt"

// argsOf returns the arguments of a pod with a subcommand, with paths of this machine. What a migration does in the cluster, it does
// with the rights of the pod's ServiceAccount.
func (n *Nodes) argsOf(pod *corev1.Pod, volume string) (args []string, err error) {
	paths := strings.NewReplacer(mountPoint, volume, servingCA, n.path("ca.crt"))
	for _, arg := range pod.Spec.Containers[0].Args {
		args = append(args, paths.Replace(arg))
	}
	if args[0] != "import" && args[0] != "export" {
		return args, nil
	}
	groups := []string{"system:authenticated", "system:serviceaccounts", "system:serviceaccounts:" + pod.Namespace}
	client, err := n.options.Kube.ClientFor("system:serviceaccount:"+pod.Namespace+":"+pod.Spec.ServiceAccountName, groups...)
	if err != nil {
		return nil, err
	}
	return append(args, "--kubeconfig="+client.Kubeconfig), nil
}

// awaitEnd records what has come of the program of a pod. The pod may be gone when it has ended.
func (n *Nodes) awaitEnd(ctx context.Context, pod *corev1.Pod, process *process) {
	select {
	case <-ctx.Done():
		return
	case <-process.exited:
	}
	terminated := &corev1.ContainerStateTerminated{FinishedAt: metav1.Now(), ExitCode: int32(process.cmd.ProcessState.ExitCode())}
	phase := corev1.PodSucceeded
	if process.err != nil {
		phase = corev1.PodFailed
	}
	container := pod.Spec.Containers[0]
	_ = n.patchStatus(ctx, pod, corev1.PodStatus{ // its Job waits for it, and a test for the Job
		Phase:             phase,
		ContainerStatuses: []corev1.ContainerStatus{{Name: container.Name, Image: container.Image, State: corev1.ContainerState{Terminated: terminated}}},
	})
}

func (n *Nodes) setReady(ctx context.Context, pod *corev1.Pod) error {
	now, started, container := metav1.Now(), true, pod.Spec.Containers[0]
	pod = pod.DeepCopy()
	pod.Status.Phase, pod.Status.StartTime = corev1.PodRunning, &now
	for _, condition := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: condition, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: container.Name, Image: container.Image, Ready: true, Started: &started,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
	}}
	return n.patchStatus(ctx, pod, pod.Status)
}

func (n *Nodes) patchStatus(ctx context.Context, pod *corev1.Pod, status corev1.PodStatus) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": status})
	if err != nil {
		return err
	}
	_, err = n.pods.Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// kubectlScript stands in for kubectl.
const kubectlScript = `#!/usr/bin/env bash
# All commands but exec and logs are those of the real kubectl.
set -euo pipefail
case ${1-} in exec | logs) ;; *) exec KUBECTL "$@" ;; esac
verb=$1 namespace=default target='' stdin=''
shift
while [ $# -gt 0 ] && [ "$1" != -- ]; do
	case $verb$1 in
	exec-i) stdin=yes ;;
	exec-n | logs-n) namespace=$2; shift ;;
	logs-f | logs--pod-running-timeout=*) ;;
	exec-* | logs-*) echo "this kubectl $verb knows no $1" >&2; exit 2 ;;
	*) target=$1 ;;
	esac
	shift
done
if [ "$verb" = logs ]; then
	pod() { KUBECTL get pods -n "$namespace" -l "batch.kubernetes.io/job-name=${target#job/}" -o jsonpath="{.items[*]$1}"; }
	until [[ $(pod .status.phase) =~ Succeeded|Failed ]]; do
		[ ! -e LOGS/failed ] || { echo "the nodes have failed: $(cat LOGS/failed)" >&2; exit 1; }
		sleep 0.2
	done
	exec cat "LOGS/$(pod .metadata.name).log"
fi
shift
selector=$(KUBECTL get -n "$namespace" "$target" -o go-template='{{range $key, $value := .spec.selector.matchLabels}}{{$key}}={{$value}},{{end}}')
pod=$(KUBECTL get pods -n "$namespace" -l "${selector%,}" --field-selector=status.phase=Running -o jsonpath='{.items[0].metadata.name}')
. "PODS/$pod"
[ "$1" = /metal3-apiserver ] || { echo "exec: \"$1\": the image has no such program" >&2; exit 126; }
shift
[ -n "$stdin" ] || exec </dev/null
mounted=MOUNT_POINT # in a variable, because of its slashes
exec "$program" "${@//$mounted/$volume}"
`
