package kind

import (
	"context"
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
)

// RefuseFuture answers 410 to a watch from a resourceVersion that etcd has not
// reached. It is of another etcd: that of the custom resources from which the
// objects were imported, or one that was restored from a backup. The watch cache
// would take it, and then keep silent until etcd has come so far, and the client,
// such as the garbage collector, would never know what it misses. After a 410
// clients list anew.
func RefuseFuture(ctx context.Context, store *genericregistry.Store, options *metainternalversion.ListOptions) error {
	if options == nil || options.SendInitialEvents != nil { // with initial events nothing is missed
		return nil
	}
	asked, err := strconv.ParseUint(options.ResourceVersion, 10, 64)
	if err != nil || asked == 0 {
		return nil // none, any, or one that the store says what is wrong with
	}
	current, err := store.Storage.Storage.GetCurrentResourceVersion(ctx)
	if err != nil || asked <= current {
		return err
	}
	return apierrors.NewResourceExpired(fmt.Sprintf("resourceVersion %d is of another etcd, this one is at %d: list again", asked, current))
}
