package app

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	metal3api "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/apiserver"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/baremetalhost"
)

// cachedOptions are options for stores that have a watch cache.
type cachedOptions struct{ *storagebackend.Config }

func (o cachedOptions) GetRESTOptions(resource schema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	return generic.RESTOptions{
		StorageConfig:  o.ForResource(resource),
		Decorator:      genericregistry.StorageWithCacher(),
		ResourcePrefix: "/" + resource.Group + "/" + resource.Resource,
	}, nil
}

// TestExplainedStorageHasWatchCache checks that the errors of a full etcd are not explained at the
// price of the watch cache: without it, reads ask etcd and Ironic one after the other, and lists
// wait until the cache has its next look at etcd.
func TestExplainedStorageHasWatchCache(t *testing.T) {
	etcd := startEtcd(t, t.TempDir())
	t.Cleanup(etcd.Close)
	config := storagebackend.NewDefaultConfig("/registry", apiserver.Codecs.LegacyCodec(metal3api.SchemeGroupVersion))
	config.Transport.ServerList = []string{etcd.Endpoint}
	store, err := baremetalhost.NewStore(apiserver.Scheme, explainedOptions{cachedOptions{config}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.DestroyFunc)
	ctx := genericapirequest.WithNamespace(t.Context(), "metal3")
	host := &metal3api.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Name: "worker-0", Namespace: "metal3"}}
	if _, err := store.Create(ctx, host, rest.ValidateAllObjectFunc, &metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	hosts := baremetalhost.NewHosts(store)
	err = wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, 5*time.Minute, true, func(ctx context.Context) (bool, error) {
		return hosts.Cached(ctx, "metal3", "worker-0") != nil, nil
	})
	if err != nil {
		t.Error("the watch cache does not show the host")
	}
}
