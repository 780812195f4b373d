// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"

	"k8s.io/klog/v2"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic/client"
	"github.com/metal3-io/metal3-apiserver/pkg/version"
)

// Run serves until ctx ends.
func Run(ctx context.Context, o *Options) error {
	klog.InfoS("Starting metal3-apiserver", "version", version.Version)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	for _, warning := range o.Ironic.Warnings() {
		klog.ErrorS(nil, "Credentials are exposed: "+warning)
	}
	ironic, err := client.New(o.Ironic)
	if err != nil {
		return err
	}
	defer ironic.Close()

	etcd, err := openEtcd(ctx, o, cancel)
	if err != nil {
		return err
	}
	// Everything below uses etcd until it has stopped.
	defer etcd.Close()

	if err := waitForCluster(ctx, o); err != nil {
		return err
	}
	config, err := o.Config(ironic, etcd)
	if err != nil {
		return err
	}
	completed, err := config.Complete()
	if err != nil {
		return err
	}
	server, err := completed.New(ctx)
	if err != nil {
		return err
	}
	err = server.Run(ctx)
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}
