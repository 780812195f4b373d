// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// runtimeScheme is that of a program which works with hosts and Secrets.
var runtimeScheme = func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, metal3.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	return scheme
}()

func init() { log.SetLogger(klog.Background()) }

// runtimeClient reads past any cache.
func runtimeClient(t *testing.T, config *rest.Config) client.WithWatch {
	t.Helper()
	c, err := client.NewWithWatch(config, client.Options{Scheme: runtimeScheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// newManager makes a manager of the objects of a namespace. change has the last word.
func newManager(t *testing.T, ns string, change ...func(*manager.Options)) manager.Manager {
	t.Helper()
	options := manager.Options{
		Scheme:  runtimeScheme,
		Cache:   cache.Options{DefaultNamespaces: map[string]cache.Config{ns: {}}},
		Metrics: metricsserver.Options{BindAddress: "0"},
	}
	for _, c := range change {
		c(&options)
	}
	m, err := manager.New(s.Config, options)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// startManager runs it until the end of the test, or until stop is called.
func startManager(t *testing.T, ctx context.Context, m manager.Manager) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- m.Start(ctx) }()
	stopped := false
	stop = func() {
		cancel()
		if stopped {
			return
		}
		stopped = true
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	if !m.GetCache().WaitForCacheSync(ctx) {
		t.Fatal("the manager's cache was not in sync before its time was up")
	}
	return stop
}

// bareHost is a host for a client to create, which is paused and has no BMC.
func bareHost(ns, name string) *metal3.BareMetalHost {
	return &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{
		Namespace: ns, Name: name, Annotations: map[string]string{metal3.PausedAnnotation: "contract"},
	}}
}
