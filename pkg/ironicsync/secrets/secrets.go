// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"context"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/keymutex"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

// Credentials are the credentials of a BMC in a Secret.
type Credentials struct {
	Username, Password string
	// Version is the resourceVersion of the Secret. Since is the earliest resourceVersion known
	// to have had the same credentials.
	Version, Since string
	// Leaving is set if the Secret is being deleted. It is there until nobody claims it any more.
	Leaving bool
}

// IncompleteError says which keys of a Secret are missing or cannot be right. It never contains any of its values.
type IncompleteError struct{ message string }

func (e *IncompleteError) Error() string { return e.message }

// Secrets reads the Secrets that hosts name, and manages the claims of hosts on those with BMC
// credentials. It watches metadata only: the contents of a Secret are read when they are needed,
// and only digests of them are kept.
type Secrets struct {
	*access
	*watcher
	memory *memory
	letGo  *letGo
}

// locks is how many locks the Secrets share. One is held while a Secret is written, which an admission webhook of a tenant's may delay:
// few others are to wait for that.
const locks = 4096

// New returns Secrets that use the given clients. Only the Secrets in the given namespaces are
// watched, or those in all namespaces if none is given.
func New(kube kubernetes.Interface, meta metadata.Interface, namespaces []string) *Secrets {
	a, w := &access{kube, keymutex.NewHashed(locks)}, newWatcher(meta, namespaces)
	return &Secrets{access: a, watcher: w, memory: newMemory(w), letGo: newLetGo(a, w)}
}

// Run watches Secrets until ctx ends.
func (s *Secrets) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { s.watcher.run(ctx) })
	running.Go(func() { s.letGo.run(ctx) })
	<-ctx.Done()
	s.letGo.queue.ShutDown()
}

// Version returns the earliest resourceVersion known to have had the present credentials of a
// Secret, and its deletion if it is being deleted, of which its hosts are to tell; empty if there is no such Secret.
func (s *Secrets) Version(namespace, name string) string {
	return s.version(namespace, name, true)
}

// Exists asks kube-apiserver whether a Secret exists. It is for Secrets that the watch has not
// shown, which may lag behind. If kube-apiserver cannot tell, the result is an error.
func (s *Secrets) Exists(ctx context.Context, namespace, name string) (bool, error) {
	if len(validation.NameIsDNSSubdomain(name, false)) > 0 {
		return false, nil
	}
	_, err := s.get(ctx, namespace, name)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("looking for Secret %s/%s: %w", namespace, name, err)
	}
	return true, nil
}

// NetworkVersion does what Version does for the Secret with the network data of the host's
// ramdisk. It is also empty if the host names none.
func (s *Secrets) NetworkVersion(host *metal3.BareMetalHost) string {
	if host.Spec.PreprovisioningNetworkDataName == "" {
		return ""
	}
	return s.version(host.Namespace, host.Spec.PreprovisioningNetworkDataName, false)
}

// Versions returns, for each Secret that a host names, the earliest resourceVersion known to have
// had its present contents. The keys are the names of the Secrets.
func (s *Secrets) Versions(host *metal3.BareMetalHost) map[string]string {
	versions := map[string]string{}
	for _, name := range DataSecretsOf(host) {
		versions[name] = s.version(host.Namespace, name, false)
	}
	versions[host.Spec.BMC.CredentialsName] = s.Version(host.Namespace, host.Spec.BMC.CredentialsName)
	return versions
}

// DataSecretsOf returns the names of the Secrets that a host names, other than the one with its
// BMC credentials. All of them are in the host's namespace; validation refuses any other.
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
	return s.memory.version(contentsKey{namespace + "/" + name, credentials}, s.watched(namespace, name))
}

// Refresh reads a Secret with BMC credentials if it has been written since it was last read, to
// find out whether the credentials have changed. A Secret that was never read is not read: its
// Version is the resourceVersion that the watch has shown.
func (s *Secrets) Refresh(ctx context.Context, namespace, name string) error {
	return s.refresh(ctx, namespace, name, true)
}

// RefreshAll does what Refresh does for all Secrets that a host names. Those other than the one
// with the BMC credentials are read even if they never were: only after that can a change of
// their contents be distinguished from one of their metadata.
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
	isToBeRead := func() bool {
		watched := s.watched(namespace, name)
		known, ok := s.memory.get(contentsKey{key, credentials})
		return watched != "" && (ok || !credentials) && (!ok || lifecycle.IsNewerVersion(watched, known.last))
	}
	if !isToBeRead() { // as nearly always: nothing waits for a write then
		return nil
	}
	defer s.lock(key)()
	if !isToBeRead() {
		return nil
	}
	secret, err := s.get(ctx, namespace, name)
	if err != nil {
		return ignoreNotFound(err)
	}
	s.memory.note(secret, secret.ResourceVersion, credentials)
	return nil
}

// forgetObject drops what is known about a Secret that was deleted.
func (s *Secrets) forgetObject(obj any) {
	if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
		s.memory.forget(key)
	}
}

// Notify registers a function that is called with the namespace and name of each Secret that is
// created, changed or deleted.
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
