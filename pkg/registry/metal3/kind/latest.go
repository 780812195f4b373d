// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"context"
	"strconv"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
)

// isHistory reports whether a list has to be served at exactly the resourceVersion that it names:
// because resourceVersionMatch says so, because it continues an earlier list, or because it has a
// limit and a resourceVersion but no resourceVersionMatch, which means the same for compatibility
// with older clients.
func isHistory(options *metainternalversion.ListOptions) bool {
	if options == nil {
		return false
	}
	return options.Continue != "" ||
		options.ResourceVersionMatch == metav1.ResourceVersionMatchExact ||
		options.ResourceVersionMatch == "" && options.Limit > 0 && options.ResourceVersion != "" && options.ResourceVersion != "0"
}

// atLatest turns a list "at any version" or "not older than" an old version into one of the latest
// version. Otherwise, it could be answered from a watch cache that has not yet seen what was just
// recorded. A version that etcd has not reached yet is kept: the store handles that.
func atLatest(ctx context.Context, store *genericregistry.Store, options *metainternalversion.ListOptions) (*metainternalversion.ListOptions, error) {
	if options == nil || options.ResourceVersion == "" {
		return options, nil
	}
	asked, err := strconv.ParseUint(options.ResourceVersion, 10, 64)
	if err != nil {
		return options, nil // the store returns the error
	}
	current, err := store.Storage.Storage.GetCurrentResourceVersion(ctx)
	if err != nil {
		return nil, err
	}
	if asked >= current {
		return options, nil
	}
	latest := options.DeepCopy()
	latest.ResourceVersion, latest.ResourceVersionMatch = "", ""
	return latest, nil
}
