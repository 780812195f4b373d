// SPDX-License-Identifier: Apache-2.0

// Command client-go prints a line whenever the state or the power of a host changes, until it is interrupted. It shows how a program
// uses the generated clients and informers.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/generated/clientset/versioned"
	"github.com/metal3-io/metal3-apiserver/pkg/generated/informers/externalversions"
)

func main() {
	kubeconfig := flag.String("kubeconfig", os.Getenv("KUBECONFIG"), "the kubeconfig; if it is empty, that of the pod is used")
	namespace := flag.String("namespace", metav1.NamespaceAll, "the namespace of the hosts; if it is empty, all")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *kubeconfig, *namespace); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kubeconfig, namespace string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	clients, err := versioned.NewForConfig(config)
	if err != nil {
		return err
	}
	// No resync: the server sends an event for each change that it sees in Ironic.
	factory := externalversions.NewSharedInformerFactoryWithOptions(clients, 0, externalversions.WithNamespace(namespace))
	_, err = factory.Metal3().V1alpha1().BareMetalHosts().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if host, ok := obj.(*metal3.BareMetalHost); ok {
				fmt.Println(describe(host))
			}
		},
		UpdateFunc: func(before, after any) {
			old, ok := before.(*metal3.BareMetalHost)
			host, isHost := after.(*metal3.BareMetalHost)
			if ok && isHost && describe(old) != describe(host) {
				fmt.Println(describe(host))
			}
		},
		DeleteFunc: func(obj any) {
			if name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
				fmt.Println(name, "is gone")
			}
		},
	})
	if err != nil {
		return err
	}
	defer factory.Shutdown()
	factory.Start(ctx.Done())
	<-ctx.Done()
	return nil
}

func describe(host *metal3.BareMetalHost) string {
	power := "off"
	if host.Status.PoweredOn {
		power = "on"
	}
	return fmt.Sprintf("%s/%s is %q and %s", host.Namespace, host.Name, host.Status.Provisioning.State, power)
}
