// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"

	"k8s.io/klog/v2"

	metal3api "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/manager"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/reconcile"
)

// yieldToLater ends the term when a host has a record of a later version: this version leaves such a host alone, so a
// replica of the later one is to lead. If there is none, because the later version was rolled back, this one
// leads on, and the hosts wait until the version is there again.
func (t *leaderTerm) yieldToLater(hosts *reconcile.Reconciler) error {
	if !t.MayYield() {
		return nil
	}
	seen := make(chan string, 1)
	_, err := hosts.OnHostChange(func(_, host *metal3api.BareMetalHost) {
		if host != nil && host.Status.Record.IsLater() {
			select {
			case seen <- host.Namespace + "/" + host.Name:
			default:
			}
		}
	})
	if err != nil {
		return err
	}
	t.Add(func(ctx context.Context) error {
		select {
		case host := <-seen:
			klog.InfoS("A later version of this server has recorded a host, and should lead", "host", host)
			return manager.ErrYield
		case <-ctx.Done():
			return nil
		}
	})
	return nil
}
