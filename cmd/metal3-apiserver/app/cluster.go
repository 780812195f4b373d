// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/events"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/secrets"
)

const (
	clusterProbeInterval = 2 * time.Second
	clusterProbeTimeout  = 5 * time.Second
)

// The rate limit of requests to the cluster, most of which are for Secrets when hundreds of hosts
// are registered. The default of client-go is 5 per second.
const (
	clusterQPS   = 50
	clusterBurst = 100
)

// clusterClients are the clients of the cluster whose aggregation layer the server is behind.
type clusterClients struct {
	kubernetes kubernetes.Interface
	// leases is for the Lease of this server. Nothing else waits at its rate limit, and so nothing can keep the leader from renewing it.
	leases kubernetes.Interface
	// events is for events, of which whoever may edit hosts can cause any number.
	events   kubernetes.Interface
	metadata metadata.Interface
	// dynamic reads the Ironic objects of the Ironic Standalone Operator.
	dynamic dynamic.Interface
	// readSecret is for reads of hosts. It has no rate limit, because reads must not wait for
	// one; how many Secrets they read at a time is limited elsewhere.
	readSecret secrets.Reader
	identity   *clusterIdentity
}

func newClusterClients(config *rest.Config) (*clusterClients, error) {
	limited, unlimited, forEvents := rest.CopyConfig(config), rest.CopyConfig(config), rest.CopyConfig(config)
	limited.QPS, limited.Burst = clusterQPS, clusterBurst
	forEvents.QPS, forEvents.Burst = events.QPS, events.Burst
	unlimited.QPS = -1
	var c clusterClients
	var err error
	if c.kubernetes, err = kubernetes.NewForConfig(limited); err != nil {
		return nil, err
	}
	if c.leases, err = kubernetes.NewForConfig(limited); err != nil {
		return nil, err
	}
	if c.events, err = kubernetes.NewForConfig(forEvents); err != nil {
		return nil, err
	}
	c.identity = &clusterIdentity{client: c.kubernetes}
	if c.metadata, err = metadata.NewForConfig(limited); err != nil {
		return nil, err
	}
	if c.dynamic, err = dynamic.NewForConfig(limited); err != nil {
		return nil, err
	}
	reader, err := corev1client.NewForConfig(unlimited)
	if err != nil {
		return nil, err
	}
	c.readSecret = secrets.NewReader(reader)
	return &c, nil
}

// waitForCluster waits until the ConfigMap that says whom the cluster trusts to authenticate its
// users can be read. The generic server would exit at once if it cannot be read, but this server
// must be able to start before the cluster, which may depend on the hosts that it manages. Then it leaves out the admission plugins
// that the cluster is too old for.
func waitForCluster(ctx context.Context, o *Options) error {
	if o.Recommended.Authentication.SkipInClusterLookup {
		return nil
	}
	config, err := clusterConfig(o.Recommended.Authentication.RemoteKubeConfigFile)
	if err != nil {
		return err
	}
	config.Timeout = clusterProbeTimeout
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	logged := false
	return wait.PollUntilContextCancel(ctx, clusterProbeInterval, true, func(ctx context.Context) (bool, error) {
		_, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, "extension-apiserver-authentication", metav1.GetOptions{})
		if err == nil {
			err = disableUnservedPolicies(client.Discovery(), o.Recommended.Admission)
		}
		if err != nil && !logged {
			klog.ErrorS(err, "Waiting for the cluster: ConfigMap kube-system/extension-apiserver-authentication, or which admission kinds there are, cannot be read. "+
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

// clusterIdentity knows the UID of the cluster as soon as it can be read.
type clusterIdentity struct {
	client kubernetes.Interface
	uid    atomic.Pointer[string]
}

// UID returns what clusterUID has returned; empty before that.
func (c *clusterIdentity) UID() string {
	if uid := c.uid.Load(); uid != nil {
		return *uid
	}
	return ""
}

// Read reads the UID, unless it is known. (That it may not be read can change.)
func (c *clusterIdentity) Read(ctx context.Context) (string, error) {
	if uid := c.UID(); uid != "" {
		return uid, nil
	}
	uid, err := clusterUID(ctx, c.client)
	if err != nil {
		return "", err
	}
	c.uid.Store(&uid)
	return uid, nil
}

// Run tries to read the UID until it is known, or ctx ends.
func (c *clusterIdentity) Run(ctx context.Context) {
	_ = wait.PollUntilContextCancel(ctx, clusterProbeInterval, true, func(ctx context.Context) (bool, error) {
		_, err := c.Read(ctx)
		if err != nil {
			klog.FromContext(ctx).V(2).Info("Nodes of other clusters are not recognised yet, and no node that bears another host's mark is shown", "err", err)
		}
		return err == nil, nil
	})
}
