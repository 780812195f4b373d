// Package secrets reads the Secrets that hosts name, watches their versions, and keeps
// the claims of hosts on those with credentials of BMCs.
package secrets

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/keymutex"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

// Credentials are what a BMC Secret holds.
type Credentials struct {
	Username, Password string
	// Version is the resourceVersion that they were read at, Since the earliest
	// one known to have had the same contents.
	Version, Since string
}

// IncompleteError says what a Secret lacks. It never holds what the Secret has.
type IncompleteError struct{ message string }

func (e *IncompleteError) Error() string { return e.message }

// Secrets reads the Secrets that hosts name and keeps the claims on those with BMC
// credentials. What it watches and remembers is metadata only: the contents of
// a Secret are read when they are needed, and not kept.
//
// Every host that claims a Secret writes to it, which gives it a new
// resourceVersion without new contents. Where many hosts share one Secret, taking
// that for new credentials would register each host anew for each other one. So a
// digest of the contents tells since which resourceVersion they are what they are.
type Secrets struct {
	client kubernetes.Interface
	// informers are those of the managed namespaces, or one with the key metav1.NamespaceAll.
	informers map[string]cache.SharedIndexInformer
	claims    keymutex.KeyMutex // by Secret: hosts that share one take turns

	mu       sync.Mutex
	key      [32]byte // of the digests, new in each process
	contents map[contentsKey]contents
}

// contentsKey is a Secret, or the part of it that a BMC's credentials are.
type contentsKey struct {
	secret      string // namespace/name
	credentials bool
}

// contents is what is known of the contents of a Secret that was read.
type contents struct {
	digest [32]byte
	// since is the earliest resourceVersion known to have had these contents, last
	// the latest.
	since, last string
}

// New returns Secrets on a cluster's clients. Only the Secrets of the given namespaces are
// watched; none means those of all namespaces.
func New(client kubernetes.Interface, meta metadata.Interface, namespaces []string) *Secrets {
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	s := &Secrets{client: client, informers: map[string]cache.SharedIndexInformer{}, claims: keymutex.NewHashed(0), contents: map[contentsKey]contents{}}
	for _, namespace := range namespaces {
		s.informers[namespace] = newInformer(meta, namespace)
	}
	_, _ = rand.Read(s.key[:]) // never fails
	return s
}

// newInformer watches the metadata of the Secrets of a namespace.
func newInformer(meta metadata.Interface, namespace string) cache.SharedIndexInformer {
	all := meta.Resource(corev1.SchemeGroupVersion.WithResource("secrets")).Namespace(namespace)
	informer := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return all.List(Quiet(ctx), options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return all.Watch(Quiet(ctx), options)
		},
	}, meta), &metav1.PartialObjectMetadata{}, 0, cache.Indexers{})
	// kubectl apply leaves the whole Secret in an annotation.
	_ = informer.SetTransform(func(obj any) (any, error) { // fails only once it runs
		if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
			m.Annotations, m.ManagedFields = nil, nil
		}
		return obj, nil
	})
	return informer
}

// Run watches Secrets until ctx ends.
func (s *Secrets) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	for _, informer := range s.informers {
		running.Go(func() { informer.RunWithContext(ctx) })
	}
}

// namespaceSyncTimeout is how long WaitForSync waits for the Secrets of single namespaces.
const namespaceSyncTimeout = 10 * time.Second

// WaitForSync waits until the Secrets are known, and reports whether ctx goes on. Of the
// Secrets of single namespaces, it does not wait for ever: one that does not exist, or in which
// the server has no permissions, must not keep hosts of the others from being managed.
func (s *Secrets) WaitForSync(ctx context.Context) bool {
	if informer, ok := s.informers[metav1.NamespaceAll]; ok {
		return cache.WaitForCacheSync(ctx.Done(), informer.HasSynced)
	}
	limited, cancel := context.WithTimeout(ctx, namespaceSyncTimeout)
	defer cancel()
	for namespace, informer := range s.informers {
		if !cache.WaitForCacheSync(limited.Done(), informer.HasSynced) && ctx.Err() == nil {
			klog.FromContext(ctx).Error(nil, "The Secrets of a namespace cannot be listed yet: check that the namespace exists, and that the ClusterRole metal3-apiserver-secrets is bound to the server there", "namespace", namespace)
		}
	}
	return ctx.Err() == nil
}

// Version returns the resourceVersion since which the credentials in a Secret are
// what they are, as far as is known; empty if there is no such Secret.
func (s *Secrets) Version(namespace, name string) string {
	return s.version(namespace, name, true)
}

// Exists asks the cluster for a Secret that the watch knows nothing of. Only the
// cluster's own word says that there is none: the error is that of asking.
func (s *Secrets) Exists(ctx context.Context, namespace, name string) (bool, error) {
	if len(validation.NameIsDNSSubdomain(name, false)) > 0 {
		return false, nil
	}
	_, err := s.client.CoreV1().Secrets(namespace).Get(Quiet(ctx), name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("looking for Secret %s/%s: %w", namespace, name, err)
	}
	return true, nil
}

// NetworkVersion is Version for the Secret with the network of the host's ramdisk.
func (s *Secrets) NetworkVersion(host *metal3.BareMetalHost) string {
	if host.Spec.PreprovisioningNetworkDataName == "" {
		return ""
	}
	return s.version(host.Namespace, host.Spec.PreprovisioningNetworkDataName, false)
}

// Versions returns the resourceVersions since which the Secrets that a host names
// have their contents, as far as is known, by the names.
func (s *Secrets) Versions(host *metal3.BareMetalHost) map[string]string {
	versions := map[string]string{}
	for _, name := range DataSecretsOf(host) {
		versions[name] = s.version(host.Namespace, name, false)
	}
	versions[host.Spec.BMC.CredentialsName] = s.Version(host.Namespace, host.Spec.BMC.CredentialsName)
	return versions
}

// DataSecretsOf returns the names of the Secrets that a host names apart from that
// of its BMC. All are in the host's namespace, others may not be named.
func DataSecretsOf(host *metal3.BareMetalHost) []string {
	spec := &host.Spec
	names := []string{spec.PreprovisioningNetworkDataName}
	for _, ref := range []*corev1.SecretReference{spec.UserData, spec.NetworkData, spec.MetaData} {
		if ref != nil {
			names = append(names, ref.Name)
		}
	}
	if spec.Image != nil && spec.Image.OCIAuthSecretName != nil {
		names = append(names, *spec.Image.OCIAuthSecretName)
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

func (s *Secrets) version(namespace, name string, credentials bool) string {
	watched := s.watched(namespace, name)
	s.mu.Lock()
	defer s.mu.Unlock()
	known, ok := s.contents[contentsKey{namespace + "/" + name, credentials}]
	if watched == "" || !ok || lifecycle.IsNewerVersion(watched, known.last) {
		return watched
	}
	return known.since
}

func (s *Secrets) watched(namespace, name string) string {
	informer, ok := s.informers[metav1.NamespaceAll]
	if !ok {
		informer, ok = s.informers[namespace]
	}
	if !ok {
		return ""
	}
	obj, exists, err := informer.GetStore().GetByKey(namespace + "/" + name)
	if err != nil || !exists {
		return ""
	}
	return obj.(*metav1.PartialObjectMetadata).ResourceVersion
}

// Refresh reads the credentials of a Secret that may have changed since they were last
// read. A Secret that was never read is left alone: its Version is that of the watch.
func (s *Secrets) Refresh(ctx context.Context, namespace, name string) error {
	return s.refresh(ctx, namespace, name, true)
}

// RefreshAll does the same for all Secrets that a host names. Those other than its BMC's
// are read also if they never were, because new contents can be told from a change of the
// metadata only by comparison with what was read before.
func (s *Secrets) RefreshAll(ctx context.Context, host *metal3.BareMetalHost) error {
	for _, name := range DataSecretsOf(host) {
		if err := s.refresh(ctx, host.Namespace, name, false); err != nil {
			return fmt.Errorf("reading Secret %s/%s: %w", host.Namespace, name, err)
		}
	}
	return s.Refresh(ctx, host.Namespace, host.Spec.BMC.CredentialsName)
}

func (s *Secrets) refresh(ctx context.Context, namespace, name string, credentials bool) error {
	key := namespace + "/" + name
	s.claims.LockKey(key)
	defer func() { _ = s.claims.UnlockKey(key) }()
	watched := s.watched(namespace, name)
	s.mu.Lock()
	known, ok := s.contents[contentsKey{key, credentials}]
	s.mu.Unlock()
	if watched == "" || !ok && credentials || ok && !lifecycle.IsNewerVersion(watched, known.last) {
		return nil
	}
	secret, err := s.client.CoreV1().Secrets(namespace).Get(Quiet(ctx), name, metav1.GetOptions{})
	if err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	s.note(secret, secret.ResourceVersion, credentials)
	return nil
}

// note remembers what a Secret contains that was read at a version, and perhaps
// written since without other contents. It returns since when.
func (s *Secrets) note(secret *corev1.Secret, read string, credentials bool) (since string) {
	keys := []string{metal3.SecretUsernameKey, metal3.SecretPasswordKey}
	if !credentials {
		keys = slices.Sorted(maps.Keys(secret.Data))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	mac := hmac.New(sha256.New, s.key[:])
	for _, key := range keys {
		_, _ = fmt.Fprintf(mac, "%q %d:%s", key, len(secret.Data[key]), secret.Data[key])
	}
	now := contents{since: read, last: secret.ResourceVersion, digest: [32]byte(mac.Sum(nil))}
	key := contentsKey{secret.Namespace + "/" + secret.Name, credentials}
	if known, ok := s.contents[key]; ok && known.digest == now.digest {
		now.since = known.since
	}
	s.contents[key] = now
	return now.since
}

func (s *Secrets) forgetObject(obj any) {
	if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.contents, contentsKey{key, true})
		delete(s.contents, contentsKey{key, false})
	}
}

// Notify has changed called with namespace and name of each Secret that comes,
// goes or changes.
func (s *Secrets) Notify(changed func(namespace, name string)) error {
	on := func(obj any) {
		if d, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = d.Obj
		}
		if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
			changed(m.Namespace, m.Name)
		}
	}
	for _, informer := range s.informers {
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    on,
			UpdateFunc: func(_, obj any) { on(obj) },
			DeleteFunc: func(obj any) { on(obj); s.forgetObject(obj) },
		}); err != nil {
			return err
		}
	}
	return nil
}
