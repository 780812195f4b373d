// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// pods returns the server's pods that are ready.
func (i *installation) pods() (ready []corev1.Pod) {
	i.t.Helper()
	list, err := i.core.CoreV1().Pods(namespace).List(i.ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + server})
	if err != nil {
		i.t.Fatal(err)
	}
	for _, pod := range list.Items {
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil {
				ready = append(ready, pod)
			}
		}
	}
	return ready
}

// checkPods waits until all replicas are ready. The namespace warns of pods that do not comply with the restricted Pod Security
// Standard, and could enforce it: there are none.
func (i *installation) checkPods(replicas int) {
	i.t.Helper()
	testbed.Eventually(i.t, i.ctx, func() string {
		if ready := len(i.pods()); ready != replicas {
			return fmt.Sprintf("%d of %d pods are ready", ready, replicas)
		}
		return ""
	})
	ns, err := i.core.CoreV1().Namespaces().Get(i.ctx, namespace, metav1.GetOptions{})
	if err != nil {
		i.t.Fatal(err)
	}
	if level := ns.Labels["pod-security.kubernetes.io/warn"]; level != "restricted" {
		i.t.Errorf("the namespace warns of pods that do not comply with the Pod Security Standard %q", level)
	}
	i.execute("kubectl label namespace " + namespace + " pod-security.kubernetes.io/enforce=restricted --dry-run=server")
}

// checkLogs reads the pods' logs through the kubelet.
func (i *installation) checkLogs() {
	i.t.Helper()
	if logs := i.kubectl("", "-n", namespace, "logs", "-l", "app.kubernetes.io/name="+server, "--prefix", "--tail=100"); logs == "" {
		i.t.Error("kubectl logs prints nothing")
	}
}

// reading reads the host, again and again, until stop is called, which returns how many reads there were.
func (i *installation) reading() (stop func() (reads int64)) {
	ctx, cancel := context.WithCancel(i.ctx)
	var reads atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if err := i.readHost(ctx); err != nil && ctx.Err() == nil {
				i.t.Errorf("read %d fails at %s: %v", reads.Load(), time.Now().UTC().Format(time.StampMilli), err)
			}
			reads.Add(1)
			time.Sleep(5 * time.Millisecond) // leaves the processor to what is restarted
		}
	}()
	return func() int64 {
		cancel()
		<-done
		return reads.Load()
	}
}

// checkRollout restarts all pods, one after the other.
func (i *installation) checkRollout() {
	i.t.Helper()
	stop := i.reading()
	i.kubectl("", "-n", namespace, "rollout", "restart", "deployment/"+server)
	i.kubectl("", "-n", namespace, "rollout", "status", "deployment/"+server, "--timeout=10m")
	i.checkPods(2)
	i.t.Logf("%d reads while all pods were restarted", stop())
}

// checkEviction evicts a pod, as the drain of its node does: the second one stays until the first one is replaced.
func (i *installation) checkEviction() {
	i.t.Helper()
	stop := i.reading()
	pods := i.pods()
	evict := func(pod corev1.Pod) error {
		return i.core.PolicyV1().Evictions(namespace).Evict(i.ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: namespace}})
	}
	if err := evict(pods[0]); err != nil {
		i.t.Error(err)
	}
	if err := evict(pods[1]); !apierrors.IsTooManyRequests(err) {
		i.t.Errorf("the second pod is evicted together with the first one: %v", err)
	}
	i.checkPods(2)
	i.t.Logf("%d reads while a pod was evicted", stop())
}

// createVolume creates a volume for a claim, which a storage class provides elsewhere.
func (i *installation) createVolume() {
	i.t.Helper()
	volume := i.t.TempDir()
	i.kubectl(fmt.Sprintf(`{"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "volume"}, "spec": {
		"capacity": {"storage": "8Gi"}, "accessModes": ["ReadWriteOnce"], "local": {"path": %q},
		"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["node1"]}]}]}}}}`, volume), "create", "-f", "-")
}

// checkVolume deletes the pod. The next one has the same hosts.
func (i *installation) checkVolume() {
	i.t.Helper()
	host, err := i.metal3.Metal3V1alpha1().BareMetalHosts("metal3").Get(i.ctx, "worker-0", metav1.GetOptions{})
	if err != nil {
		i.t.Fatal(err)
	}
	i.kubectl("", "-n", namespace, "delete", "pod", i.pods()[0].Name)
	i.checkPods(1)
	testbed.Eventually(i.t, i.ctx, func() string {
		again, err := i.metal3.Metal3V1alpha1().BareMetalHosts("metal3").Get(i.ctx, "worker-0", metav1.GetOptions{})
		switch {
		case err != nil:
			return err.Error()
		case again.UID != host.UID:
			return "it is another host"
		}
		return ""
	})
}

// checkLiveness suspends the server. The kubelet replaces it.
func (i *installation) checkLiveness() {
	i.t.Helper()
	for _, pid := range i.processes() {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			i.t.Fatal(err)
		}
	}
	testbed.Eventually(i.t, i.ctx, func() string {
		pods := i.pods()
		if len(pods) == 0 {
			return "no pod is ready"
		}
		if pods[0].Status.ContainerStatuses[0].RestartCount == 0 {
			return "the server that hangs has not been restarted"
		}
		if err := i.readHost(i.ctx); err != nil {
			return err.Error()
		}
		return ""
	})
}

// checkRenewal makes another certificate and applies it, as once a year: no read fails, and the server uses it.
func (i *installation) checkRenewal() {
	i.t.Helper()
	stop := i.reading()
	folder := "metal3-apiserver/artifacts/apiservice/components/self-signed/"
	i.execute(folder + "make-certs.sh")
	i.execute("kubectl apply -k my-cluster")
	content, err := os.ReadFile(filepath.Join(i.dir, folder, "tls.crt"))
	if err != nil {
		i.t.Fatal(err)
	}
	block, _ := pem.Decode(content)
	renewed, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		i.t.Fatal(err)
	}
	testbed.Eventually(i.t, i.ctx, func() string {
		served, err := i.served()
		switch {
		case err != nil:
			return err.Error()
		case !served.Equal(renewed):
			return "the server has the former certificate"
		}
		return ""
	})
	i.t.Logf("%d reads while the certificate was renewed", stop())
}

// served returns the certificate that the server's Service shows.
func (i *installation) served() (*x509.Certificate, error) {
	service, err := i.core.CoreV1().Services(namespace).Get(i.ctx, server, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	conn, err := i.node.Dial(i.ctx, "tcp", service.Spec.ClusterIP+":443")
	if err != nil {
		return nil, err
	}
	client := tls.Client(conn, &tls.Config{InsecureSkipVerify: true}) // it is compared
	defer client.Close()
	if err := client.HandshakeContext(i.ctx); err != nil {
		return nil, err
	}
	return client.ConnectionState().PeerCertificates[0], nil
}
