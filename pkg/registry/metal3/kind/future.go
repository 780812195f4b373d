// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"context"
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
)

// refuseFuture answers 410 to a watch from a resourceVersion that etcd has not reached yet.
// Such a resourceVersion comes from another etcd: that of the custom resources from which
// the objects were imported, or one that has since been restored from a backup. The watch
// cache would accept it and send nothing until etcd has reached it, and the client, such as
// the garbage collector, would not notice what it misses. After a 410, clients list again.
func refuseFuture(ctx context.Context, store *genericregistry.Store, options *metainternalversion.ListOptions) error {
	if options == nil || options.SendInitialEvents != nil && *options.SendInitialEvents { // with initial events, a client misses nothing
		return nil
	}
	asked, err := strconv.ParseUint(options.ResourceVersion, 10, 64)
	if err != nil || asked == 0 {
		return nil // it is empty, 0, or invalid, which the store reports
	}
	current, err := store.Storage.Storage.GetCurrentResourceVersion(ctx)
	if err != nil || asked <= current {
		return err
	}
	return apierrors.NewResourceExpired(fmt.Sprintf("resourceVersion %d belongs to another etcd, this one is at %d: list again", asked, current))
}
