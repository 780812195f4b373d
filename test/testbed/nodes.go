// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

// NodesOptions are the options of StartNodes.
type NodesOptions struct {
	// Kube is the control plane. It was started with Workloads.
	Kube *Kube
	// Dir is the directory for volumes, logs and Bin. It must exist.
	Dir string
	// IronicEndpoint is where the servers in the pods find Ironic, whatever the manifests say.
	IronicEndpoint string
	// Args are additional flags of the servers.
	Args []string
	// Images are the programs in the images, by their names as in a manifest: "" is the one that servers have by default. There are no
	// other images.
	Images map[string]string
}

// Nodes stands in for the nodes of a cluster, on which no pod can run here. Deployments, Jobs, pods and claims are those of the
// cluster, and real controllers make and delete them. But
//   - a pod is a process of this machine: the program of its image, with metal3-apiserver's usual flags in a testbed instead of those
//     of the Deployment, or with the arguments of the container, for another pod;
//   - a claim is a directory, which is mounted nowhere: there is a new one for each claim;
//   - a pod with a subcommand has the rights of its ServiceAccount, and no Secrets but the certificate of the servers' authority;
//   - the Service leads to the server's port (Server.Route);
//   - "kubectl exec" runs the command on this machine, with the directory of the claim instead of its mount point, and "kubectl logs"
//     shows what a Job has logged when it has ended, if Bin is in PATH before kubectl.
type Nodes struct {
	// Bin is a directory with a kubectl that knows exec and logs. All other commands are those of the real one.
	Bin string

	options NodesOptions
	core    kubernetes.Interface
	pods    corev1client.PodInterface
	stop    context.CancelFunc
	ended   sync.WaitGroup
	err     error // valid when ended

	servers   map[types.UID]*Server
	processes map[types.UID]*process
}

// mountPoint is that of the volume in metal3-apiserver's manifests.
const mountPoint = "/var/lib/metal3-apiserver"

// StartNodes begins to run the pods in metal3-apiserver's namespace.
func StartNodes(options NodesOptions) (*Nodes, error) {
	n := &Nodes{options: options, Bin: filepath.Join(options.Dir, "bin"), servers: map[types.UID]*Server{}, processes: map[types.UID]*process{}}
	var err error
	if n.core, err = kubernetes.NewForConfig(options.Kube.Admin.Config); err != nil {
		return nil, err
	}
	n.pods = n.core.CoreV1().Pods(Namespace)
	for _, dir := range []string{n.Bin, n.path("pods"), n.path("volumes")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	script := strings.NewReplacer("KUBECTL", options.Kube.kubectl, "PODS", n.path("pods"), "LOGS", options.Dir, "MOUNT_POINT", mountPoint).Replace(kubectlScript)
	if err := errors.Join(os.WriteFile(filepath.Join(n.Bin, "kubectl"), []byte(script), 0o700), os.WriteFile(n.path("ca.crt"), options.Kube.ca.pem, 0o600)); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	n.stop = stop
	n.ended.Go(func() {
		if n.err = n.run(ctx); n.err != nil {
			n.err = errors.Join(n.err, os.WriteFile(n.path("failed"), []byte(n.err.Error()+"\n"), 0o600)) // for who waits for a pod
		}
	})
	return n, nil
}

// WriteCertificates writes what make-certs.sh would: ca.crt, tls.crt and tls.key. The servers have others of the same authority.
func (n *Nodes) WriteCertificates(dir string) error {
	serving, err := n.options.Kube.ca.server(ServiceName + "." + Namespace + ".svc")
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(dir, "ca.crt"), n.options.Kube.ca.pem, 0o600), serving.write(filepath.Join(dir, "tls")))
}

// Stop stops what runs in the pods, and reports what went wrong.
func (n *Nodes) Stop() error {
	n.stop()
	n.ended.Wait()
	err := n.err
	for uid := range n.processes {
		err = errors.Join(err, n.end(uid))
	}
	for uid := range n.servers {
		err = errors.Join(err, n.end(uid))
	}
	return err
}

func (n *Nodes) path(name string) string { return filepath.Join(n.options.Dir, name) }

// run follows all pods until ctx ends.
func (n *Nodes) run(ctx context.Context) error {
	for ctx.Err() == nil {
		// It begins with the pods that there are, and kube-apiserver ends it now and then.
		watcher, err := n.pods.Watch(ctx, metav1.ListOptions{})
		if err != nil {
			return n.unlessStopped(ctx, err)
		}
		for event := range watcher.ResultChan() {
			pod, is := event.Object.(*corev1.Pod)
			if !is {
				break
			}
			if err := n.handle(ctx, event.Type, pod); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) { // it has changed since
				watcher.Stop()
				return n.unlessStopped(ctx, fmt.Errorf("pod %s: %w", pod.Name, err))
			}
		}
		watcher.Stop()
	}
	return nil
}

func (n *Nodes) unlessStopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// handle does what scheduler and kubelet do next with a pod.
func (n *Nodes) handle(ctx context.Context, event watch.EventType, pod *corev1.Pod) error {
	now := int64(0)
	switch {
	case event == watch.Deleted:
		return n.end(pod.UID)
	case pod.DeletionTimestamp != nil:
		if err := errors.Join(n.end(pod.UID), os.RemoveAll(n.path("pods/"+pod.Name))); err != nil {
			return err
		}
		return n.pods.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now, Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
	case pod.Spec.NodeName == "":
		return n.pods.Bind(ctx, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, UID: pod.UID}, Target: corev1.ObjectReference{Kind: "Node", Name: "node-1"}}, metav1.CreateOptions{})
	case n.servers[pod.UID] == nil && n.processes[pod.UID] == nil:
		if err := n.begin(ctx, pod); err != nil {
			return err
		}
		if err := n.setReady(ctx, pod); err != nil {
			return err
		}
		if process := n.processes[pod.UID]; process != nil {
			n.ended.Go(func() { n.awaitEnd(ctx, pod, process) })
		}
	}
	return nil
}

// begin starts the program of a pod, and waits until it is ready.
func (n *Nodes) begin(ctx context.Context, pod *corev1.Pod) (err error) {
	container := pod.Spec.Containers[0]
	program, is := n.options.Images[container.Image]
	if !is {
		return fmt.Errorf("there is no image %s", container.Image)
	}
	if program == "" {
		if program, err = serverProgram(); err != nil {
			return err
		}
	}
	volume, err := n.volume(ctx, pod)
	if err != nil {
		return err
	}
	// What exec needs to know. kubectl finds the pod by its owner's selector.
	if err := os.WriteFile(n.path("pods/"+pod.Name), []byte(fmt.Sprintf("program=%q volume=%q\n", program, volume)), 0o600); err != nil {
		return err
	}
	if !strings.HasPrefix(container.Args[0], "--") { // a subcommand
		args, err := n.argsOf(pod, volume)
		if err != nil {
			return err
		}
		n.processes[pod.UID], err = command{name: pod.Name, log: n.path(pod.Name + ".log"), path: program, args: args}.start()
		return err
	}
	if volume == "" {
		return errors.New("it has no claim, and a server here needs one")
	}
	server, err := NewServer(ServerOptions{
		Kube: n.options.Kube, Dir: volume, IronicEndpoint: n.options.IronicEndpoint, Args: n.options.Args, Program: program, ReadTimeout: readTimeout,
	})
	if err != nil {
		return err
	}
	n.servers[pod.UID] = server
	if err := server.Start(ctx); err != nil {
		return err
	}
	return server.Route(ctx)
}

// volume returns the directory of a pod's claim; empty if it has none.
func (n *Nodes) volume(ctx context.Context, pod *corev1.Pod) (string, error) {
	for _, volume := range pod.Spec.Volumes {
		if volume.PersistentVolumeClaim == nil {
			continue
		}
		claim, err := n.core.CoreV1().PersistentVolumeClaims(Namespace).Get(ctx, volume.PersistentVolumeClaim.ClaimName, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		// The path of a socket in it has to be short.
		dir := n.path("volumes/" + string(claim.UID[:8]))
		return dir, os.MkdirAll(dir, 0o700)
	}
	return "", nil
}

// end stops what runs in a pod.
func (n *Nodes) end(uid types.UID) (err error) {
	if server := n.servers[uid]; server != nil {
		_, err = server.Stop()
	}
	err = errors.Join(err, n.processes[uid].stop())
	delete(n.servers, uid)
	delete(n.processes, uid)
	return err
}
