package app

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	componentconfig "k8s.io/component-base/config"
	"k8s.io/klog/v2"
)

const (
	clusterProbeInterval = 2 * time.Second
	clusterProbeTimeout  = 5 * time.Second
)

// waitForCluster waits until the ConfigMap that says whom the cluster trusts to authenticate its
// users can be read. The generic server would exit at once if it cannot be read, but this server
// must be able to start before the cluster, which may depend on the hosts that it manages.
func waitForCluster(ctx context.Context, o *Options) error {
	if o.Recommended.CoreAPI == nil || o.Recommended.Authentication == nil || o.Recommended.Authentication.SkipInClusterLookup {
		return nil
	}
	config, err := clusterConfig(o.Recommended.Authentication.RemoteKubeConfigFile)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	logged := false
	return wait.PollUntilContextCancel(ctx, clusterProbeInterval, true, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, clusterProbeTimeout)
		defer cancel()
		_, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, "extension-apiserver-authentication", metav1.GetOptions{})
		if err != nil && !logged {
			klog.ErrorS(err, "Waiting for the cluster: ConfigMap kube-system/extension-apiserver-authentication cannot be read. "+
				"Check that kube-apiserver is running, and that the Role extension-apiserver-authentication-reader is bound to this server")
			logged = true
		}
		if err == nil && logged {
			klog.InfoS("The cluster answers")
		}
		return err == nil, nil
	})
}

// clusterConfig returns how to connect to the cluster: as the kubeconfig file says, or, without
// one, as a pod of the cluster.
func clusterConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		config, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("not running in a cluster (%w): set --kubeconfig, --authentication-kubeconfig and --authorization-kubeconfig", err)
		}
		return config, nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--authentication-kubeconfig: %w", err)
	}
	return config, nil
}

// clusterUID returns what identifies the cluster, which nodes in Ironic are marked with: the UID
// of the namespace kube-system, by which other tools identify clusters, too. It is empty if this
// server may not read it.
func clusterUID(ctx context.Context, client kubernetes.Interface) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, clusterProbeTimeout)
	defer cancel()
	namespace, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	switch {
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		klog.ErrorS(err, "Nodes in Ironic are not marked with the cluster, and those of other clusters are not recognised")
		return "", nil
	case err != nil:
		return "", fmt.Errorf("reading the UID of namespace %s, which identifies the cluster: %w", metav1.NamespaceSystem, err)
	}
	return string(namespace.UID), nil
}

// namespaceInformer returns an informer for the Namespaces of the cluster, of which it keeps the names and
// labels.
func namespaceInformer(client metadata.Interface) cache.SharedIndexInformer {
	all := client.Resource(corev1.SchemeGroupVersion.WithResource("namespaces"))
	informer := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return all.List(ctx, options)
		},
		WatchFuncWithContext: all.Watch,
	}, client), &metav1.PartialObjectMetadata{}, 0, cache.Indexers{})
	_ = informer.SetTransform(func(obj any) (any, error) { // fails only after the informer was started
		if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
			m.Annotations, m.ManagedFields = nil, nil
		}
		return obj, nil
	})
	return informer
}

// startLeading runs lead in the background until ctx ends. With leader election, it runs on one
// replica at a time; without, it always runs on this one. After ctx has ended, the caller must
// wait for the returned WaitGroup: by then, the Lease is released, so that another replica can
// take over at once.
func startLeading(ctx context.Context, config componentconfig.LeaderElectionConfiguration, client kubernetes.Interface, lead func(ctx context.Context, leading func() bool) error) *sync.WaitGroup {
	leading := &sync.WaitGroup{}
	leading.Go(func() {
		// The leadership can be lost and gained again, for example if the cluster was not
		// reachable for a while.
		wait.UntilWithContext(ctx, func(ctx context.Context) {
			if !config.LeaderElect {
				logFailure(lead(ctx, nil))
				return
			}
			leadOnce(ctx, config, client, lead)
		}, time.Second)
	})
	return leading
}

// leadOnce waits until this replica becomes the leader, and returns when it has stopped being
// the leader.
func leadOnce(ctx context.Context, config componentconfig.LeaderElectionConfiguration, client kubernetes.Interface, lead func(ctx context.Context, leading func() bool) error) {
	hostname, err := os.Hostname()
	if err != nil {
		hostname = "unknown"
	}
	identity := hostname + "_" + uuid.NewString()
	var tenure tenure
	lease := &heldLease{duration: config.LeaseDuration.Duration, Interface: &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: config.ResourceNamespace, Name: config.ResourceName},
		Client:     client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
	}}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Name:            config.ResourceName,
		Lock:            lease,
		LeaseDuration:   config.LeaseDuration.Duration,
		RenewDeadline:   config.RenewDeadline.Duration,
		RetryPeriod:     config.RetryPeriod.Duration,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				tenure.serve(func() {
					klog.InfoS("This replica leads", "identity", identity)
					logFailure(lead(ctx, lease.isHeld))
				})
			},
			OnStoppedLeading: func() { klog.InfoS("This replica no longer leads", "identity", identity) },
		},
	})
	if err != nil {
		klog.ErrorS(err, "Leader election could not be started")
		return
	}
	elector.Run(ctx)
	tenure.end()
}

// tenure is a period as the leader. It makes it possible to wait for the leader's work, which
// the elector starts in a separate goroutine without waiting for it.
type tenure struct {
	mu      sync.Mutex
	ended   bool
	serving sync.WaitGroup
}

// serve runs work, unless the period has ended.
func (t *tenure) serve(work func()) {
	t.mu.Lock()
	if t.ended {
		t.mu.Unlock()
		return
	}
	t.serving.Add(1)
	t.mu.Unlock()
	defer t.serving.Done()
	work()
}

// end ends the period, so that no work can begin, and waits for work that has begun.
func (t *tenure) end() {
	t.mu.Lock()
	t.ended = true
	t.mu.Unlock()
	t.serving.Wait()
}

func logFailure(err error) {
	if err != nil {
		klog.ErrorS(err, "The leader's work ended with an error")
	}
}
