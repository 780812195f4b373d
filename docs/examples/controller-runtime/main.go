// SPDX-License-Identifier: Apache-2.0

// Command controller-runtime labels each host with its state (example.com/state), until it is interrupted. It shows how a controller
// that is built with controller-runtime uses the types.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

const stateLabel = "example.com/state"

// labeler labels hosts. It reads them from the manager's cache, which is told of each change that the server sees in Ironic.
type labeler struct{ client client.Client }

// Reconcile labels a host.
func (l *labeler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var host metal3.BareMetalHost
	if err := l.client.Get(ctx, request.NamespacedName, &host); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	state := string(host.Status.Provisioning.State)
	if host.Labels[stateLabel] == state {
		return ctrl.Result{}, nil
	}
	before := host.DeepCopy()
	if host.Labels == nil {
		host.Labels = map[string]string{}
	}
	host.Labels[stateLabel] = state
	return ctrl.Result{}, client.IgnoreNotFound(l.client.Patch(ctx, &host, client.MergeFrom(before)))
}

func main() {
	namespace := flag.String("namespace", "", "the namespace of the hosts; if it is empty, all")
	flag.Parse() // also --kubeconfig
	ctrl.SetLogger(zap.New())
	if err := run(*namespace); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(namespace string) error {
	config, err := ctrl.GetConfig() // of --kubeconfig, of KUBECONFIG, or of the pod
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := metal3.AddToScheme(scheme); err != nil {
		return err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: "0"},
		Cache: cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
	})
	if err != nil {
		return err
	}
	if err := ctrl.NewControllerManagedBy(manager).For(&metal3.BareMetalHost{}).Complete(&labeler{manager.GetClient()}); err != nil {
		return err
	}
	return manager.Start(ctrl.SetupSignalHandler())
}
