package app

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
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

// waitForCluster waits until the cluster can tell whom it trusts to authenticate
// its users. The generic server would end at once where that cannot be read, and
// a server of hosts must start before the cluster that it helps to start.
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
	said := false
	return wait.PollUntilContextCancel(ctx, clusterProbeInterval, true, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, clusterProbeTimeout)
		defer cancel()
		_, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, "extension-apiserver-authentication", metav1.GetOptions{})
		if err != nil && !said {
			klog.ErrorS(err, "Waiting for the cluster: ConfigMap kube-system/extension-apiserver-authentication cannot be read. "+
				"Is the kube-apiserver up, and does the Role extension-apiserver-authentication-reader apply to us?")
			said = true
		}
		if err == nil && said {
			klog.InfoS("The cluster answers")
		}
		return err == nil, nil
	})
}

func clusterConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		config, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("not in a cluster (%w): give --kubeconfig, --authentication-kubeconfig and --authorization-kubeconfig", err)
		}
		return config, nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--authentication-kubeconfig: %w", err)
	}
	return config, nil
}

// startLeading runs lead in the background until ctx ends: on one replica of all
// at a time, by a Lease, or, without leader election, on this one. Wait for the
// result after ctx has ended: the Lease is given back, so that another replica
// goes on at once.
func startLeading(ctx context.Context, config componentconfig.LeaderElectionConfiguration, client kubernetes.Interface, lead func(context.Context) error) *sync.WaitGroup {
	leading := &sync.WaitGroup{}
	leading.Go(func() {
		// Leadership can be lost and won again: the cluster was out of reach for a while.
		wait.UntilWithContext(ctx, func(ctx context.Context) {
			if !config.LeaderElect {
				logFailure(lead(ctx))
				return
			}
			leadOnce(ctx, config, client, lead)
		}, time.Second)
	})
	return leading
}

func leadOnce(ctx context.Context, config componentconfig.LeaderElectionConfiguration, client kubernetes.Interface, lead func(context.Context) error) {
	hostname, err := os.Hostname()
	if err != nil {
		hostname = "unknown"
	}
	identity := hostname + "_" + uuid.NewString()
	var tenure tenure
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Name: config.ResourceName,
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: config.ResourceNamespace, Name: config.ResourceName},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		},
		LeaseDuration:   config.LeaseDuration.Duration,
		RenewDeadline:   config.RenewDeadline.Duration,
		RetryPeriod:     config.RetryPeriod.Duration,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				tenure.serve(func() {
					klog.InfoS("This replica leads", "identity", identity)
					logFailure(lead(ctx))
				})
			},
			OnStoppedLeading: func() { klog.InfoS("This replica does not lead", "identity", identity) },
		},
	})
	if err != nil {
		klog.ErrorS(err, "Leader election cannot start")
		return
	}
	elector.Run(ctx)
	tenure.end()
}

// tenure is a time as leader. The elector starts the leader's work in a goroutine
// of its own and does not wait for it.
type tenure struct {
	mu      sync.Mutex
	ended   bool
	serving sync.WaitGroup
}

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

// end returns when the work has ended, and lets none begin.
func (t *tenure) end() {
	t.mu.Lock()
	t.ended = true
	t.mu.Unlock()
	t.serving.Wait()
}

func logFailure(err error) {
	if err != nil {
		klog.ErrorS(err, "Driving Ironic ended")
	}
}
