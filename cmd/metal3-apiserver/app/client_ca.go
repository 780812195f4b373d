// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/klog/v2"
)

const (
	// clientCAProbeInterval is how often the wait for the authorities of clients looks for them.
	clientCAProbeInterval = 5 * time.Millisecond
	// clientCATimeout is how long the authority of the users' certificates is waited for after the front proxy's
	// is known. Both are in one ConfigMap, but a cluster may have no such users.
	clientCATimeout = time.Second
)

// clientCA has the authorities that sign the certificates of clients. Unlike the provider that it is made from, it is
// not run by the generic API server, which would begin to read the authorities from the cluster only when it
// accepts connections already. Until they were read, whoever came through kube-apiserver was
// system:anonymous and refused (403), which clients do not repeat; and in k8s.io/apiserver 0.37, an authority that
// arrived at that moment had the TLS configuration copied while it was written.
type clientCA struct {
	dynamiccertificates.CAContentProvider

	mu        sync.Mutex
	listeners []dynamiccertificates.Listener
}

// runClientCA begins to read the authorities of clients, until ctx ends. It must be called before the server runs.
func runClientCA(ctx context.Context, serving *genericapiserver.SecureServingInfo) {
	if serving == nil {
		return
	}
	controller, ok := serving.ClientCA.(dynamiccertificates.ControllerRunner)
	if !ok {
		return // they do not change, or there are none
	}
	ca := &clientCA{CAContentProvider: serving.ClientCA}
	serving.ClientCA.AddListener(ca)
	serving.ClientCA = ca
	go controller.Run(ctx, 1)
}

// awaitClientCA waits until the authority of the front proxy is known, and for a moment until that of the users is, too.
func awaitClientCA(ctx context.Context, serving *genericapiserver.SecureServingInfo, frontProxy dynamiccertificates.CAContentProvider) error {
	if serving == nil || serving.ClientCA == nil || frontProxy == nil {
		return nil
	}
	began := time.Now()
	logged := false
	err := wait.PollUntilContextCancel(ctx, clientCAProbeInterval, true, func(context.Context) (bool, error) {
		if !logged && time.Since(began) > clusterProbeTimeout {
			klog.ErrorS(nil, "Waiting for the authority of kube-apiserver's front proxy (requestheader-client-ca-file of ConfigMap kube-system/extension-apiserver-authentication). "+
				"Check that kube-apiserver is running, and that the Role extension-apiserver-authentication-reader is bound to this server")
			logged = true
		}
		return len(frontProxy.CurrentCABundleContent()) > 0, nil
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, clientCATimeout)
	defer cancel()
	// The only error is that the time is over.
	_ = wait.PollUntilContextCancel(ctx, clientCAProbeInterval, true, func(context.Context) (bool, error) {
		return !bytes.Equal(bytes.TrimSpace(serving.ClientCA.CurrentCABundleContent()), bytes.TrimSpace(frontProxy.CurrentCABundleContent())), nil
	})
	return nil
}

// AddListener registers a listener for changes. Unlike that of the provider, it may be called while the provider runs.
func (c *clientCA) AddListener(listener dynamiccertificates.Listener) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listeners = append(c.listeners, listener)
}

// Enqueue tells the listeners of a change.
func (c *clientCA) Enqueue() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, listener := range c.listeners {
		listener.Enqueue()
	}
}
