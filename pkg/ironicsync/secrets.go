package ironicsync

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/keymutex"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// Credentials are what a BMC Secret holds.
type Credentials struct {
	Username, Password string
	// Version is the resourceVersion that they were read at, Since the earliest
	// one known to have had the same contents.
	Version, Since string
}

// incompleteError says what a Secret lacks. It never holds what the Secret has.
type incompleteError struct{ message string }

func (e *incompleteError) Error() string { return e.message }

// Secrets reads BMC credentials from the Secrets of the cluster and keeps the
// claims on them. What it watches and remembers is metadata only: the contents of
// a Secret are read when they are needed, and not kept.
//
// Every host that claims a Secret writes to it, which gives it a new
// resourceVersion without new contents. Where many hosts share one Secret, taking
// that for new credentials would register each host anew for each other one. So a
// digest of the contents tells since which resourceVersion they are what they are.
type Secrets struct {
	client   kubernetes.Interface
	informer cache.SharedIndexInformer
	claims   keymutex.KeyMutex // by Secret: hosts that share one take turns

	mu       sync.Mutex
	key      [32]byte // of the digests, new in each process
	contents map[string]contents
}

// contents is what is known of the contents of a Secret that was read.
type contents struct {
	digest [32]byte
	// since is the earliest resourceVersion known to have had these contents, last
	// the latest.
	since, last string
}

// NewSecrets returns Secrets on a cluster's clients.
func NewSecrets(client kubernetes.Interface, meta metadata.Interface) *Secrets {
	all := meta.Resource(corev1.SchemeGroupVersion.WithResource("secrets"))
	informer := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return all.List(quiet(ctx), options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return all.Watch(quiet(ctx), options)
		},
	}, meta), &metav1.PartialObjectMetadata{}, 0, cache.Indexers{})
	// kubectl apply leaves the whole Secret in an annotation.
	_ = informer.SetTransform(func(obj any) (any, error) { // fails only once it runs
		if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
			m.Annotations, m.ManagedFields = nil, nil
		}
		return obj, nil
	})
	s := &Secrets{client: client, informer: informer, claims: keymutex.NewHashed(0), contents: map[string]contents{}}
	_, _ = rand.Read(s.key[:]) // never fails
	return s
}

// Version returns the resourceVersion since which the contents of a Secret are
// what they are, as far as is known; empty if there is no such Secret.
func (s *Secrets) Version(namespace, name string) string {
	watched := s.watched(namespace, name)
	s.mu.Lock()
	defer s.mu.Unlock()
	known, ok := s.contents[namespace+"/"+name]
	if watched == "" || !ok || newer(watched, known.last) {
		return watched
	}
	return known.since
}

func (s *Secrets) watched(namespace, name string) string {
	obj, exists, err := s.informer.GetStore().GetByKey(namespace + "/" + name)
	if err != nil || !exists {
		return ""
	}
	return obj.(*metav1.PartialObjectMetadata).ResourceVersion
}

// Look reads a Secret whose contents may have changed since they were last read.
// A Secret that was never read is left alone: its Version is that of the watch.
func (s *Secrets) Look(ctx context.Context, namespace, name string) error {
	key := namespace + "/" + name
	s.claims.LockKey(key)
	defer func() { _ = s.claims.UnlockKey(key) }()
	watched := s.watched(namespace, name)
	s.mu.Lock()
	known, ok := s.contents[key]
	s.mu.Unlock()
	if watched == "" || !ok || !newer(watched, known.last) {
		return nil
	}
	secret, err := s.client.CoreV1().Secrets(namespace).Get(quiet(ctx), name, metav1.GetOptions{})
	if err != nil {
		return ignoreNotFound(err)
	}
	s.note(secret)
	return nil
}

// note remembers what a Secret contains, and returns since when.
func (s *Secrets) note(secret *corev1.Secret) (since string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	mac := hmac.New(sha256.New, s.key[:])
	for _, key := range []string{metal3.SecretUsernameKey, metal3.SecretPasswordKey} {
		_, _ = fmt.Fprintf(mac, "%d:%s", len(secret.Data[key]), secret.Data[key])
	}
	now := contents{since: secret.ResourceVersion, last: secret.ResourceVersion, digest: [32]byte(mac.Sum(nil))}
	key := secret.Namespace + "/" + secret.Name
	if known, ok := s.contents[key]; ok && known.digest == now.digest {
		now.since = known.since
	}
	s.contents[key] = now
	return now.since
}

// credentialsIn returns what a Secret has for a BMC, and the keys that it lacks.
func credentialsIn(secret *corev1.Secret) (username, password string, missing []string) {
	username = strings.TrimSpace(string(secret.Data[metal3.SecretUsernameKey]))
	password = strings.TrimSpace(string(secret.Data[metal3.SecretPasswordKey]))
	if username == "" {
		missing = append(missing, metal3.SecretUsernameKey)
	}
	if password == "" {
		missing = append(missing, metal3.SecretPasswordKey)
	}
	return username, password, missing
}

// Claim reads the credentials of host and marks the Secret as the host's: the
// label by which Secrets of hosts are found, an owner reference so that it goes
// with the host, and a finalizer so that it stays until the host is gone. A Secret
// without credentials of a BMC is left as it is: whoever may create hosts, and no
// more, could have any Secret deleted with a host otherwise.
func (s *Secrets) Claim(ctx context.Context, host *metal3.BareMetalHost) (Credentials, error) {
	key := host.Namespace + "/" + host.Spec.BMC.CredentialsName
	s.claims.LockKey(key)
	defer func() { _ = s.claims.UnlockKey(key) }()
	var secret *corev1.Secret
	err := s.modify(ctx, host.Namespace, host.Spec.BMC.CredentialsName, func(sec *corev1.Secret) bool {
		secret = sec
		_, _, missing := credentialsIn(sec)
		return len(missing) == 0 && claim(sec, host)
	})
	if err != nil {
		return Credentials{}, err
	}
	c := Credentials{Version: secret.ResourceVersion, Since: s.note(secret)}
	var missing []string
	if c.Username, c.Password, missing = credentialsIn(secret); missing != nil {
		return Credentials{Version: c.Version}, &incompleteError{fmt.Sprintf("Secret %q has no %s: it needs the keys username and password of the BMC", secret.Name, strings.Join(missing, " and no "))}
	}
	return c, nil
}

// Data reads a Secret that a host names apart from its credentials, and marks it
// with the label by which Secrets of hosts are found. It stays its owner's.
func (s *Secrets) Data(ctx context.Context, namespace, name string) (corev1.SecretType, map[string][]byte, error) {
	var secret *corev1.Secret
	err := s.modify(ctx, namespace, name, func(sec *corev1.Secret) bool {
		secret = sec
		return label(sec)
	})
	if err != nil {
		return "", nil, err
	}
	return secret.Type, secret.Data, nil
}

// Release lets a Secret go that host claimed. That it is gone is no error.
func (s *Secrets) Release(ctx context.Context, host *metal3.BareMetalHost, name string) error {
	err := s.modify(ctx, host.Namespace, name, func(sec *corev1.Secret) bool {
		if ownedByAnother(sec, host) {
			// Shared: the last host to go takes the finalizer with it.
			n := len(sec.OwnerReferences)
			sec.OwnerReferences = slices.DeleteFunc(sec.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == host.UID })
			return len(sec.OwnerReferences) < n
		}
		i := slices.Index(sec.Finalizers, metal3.SecretFinalizer)
		if i < 0 {
			return false
		}
		sec.Finalizers = slices.Delete(sec.Finalizers, i, i+1)
		return true
	})
	return ignoreNotFound(err)
}

// modify reads the Secret, lets change change it and writes it if change says so.
// The Secret that change saw last carries the resulting resourceVersion.
func (s *Secrets) modify(ctx context.Context, namespace, name string, change func(*corev1.Secret) bool) error {
	if len(validation.NameIsDNSSubdomain(name, false)) > 0 {
		// Not asked for: in a path, it might be that of something else.
		return apierrors.NewNotFound(corev1.Resource("secrets"), name)
	}
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		secret, err := s.client.CoreV1().Secrets(namespace).Get(quiet(ctx), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !change(secret) {
			return nil
		}
		written, err := s.client.CoreV1().Secrets(namespace).Update(quiet(ctx), secret, metav1.UpdateOptions{})
		if err != nil {
			return err
		}
		secret.ResourceVersion = written.ResourceVersion
		return nil
	})
}

func label(secret *corev1.Secret) (changed bool) {
	if secret.Labels[metal3.EnvironmentLabel] == metal3.EnvironmentLabelValue {
		return false
	}
	if secret.Labels == nil {
		secret.Labels = map[string]string{}
	}
	secret.Labels[metal3.EnvironmentLabel] = metal3.EnvironmentLabelValue
	return true
}

func claim(secret *corev1.Secret, host *metal3.BareMetalHost) (changed bool) {
	changed = label(secret)
	// A Secret or a host on its way out is not held any longer than it is already.
	if !secret.DeletionTimestamp.IsZero() || !host.DeletionTimestamp.IsZero() {
		return changed
	}
	if !slices.Contains(secret.Finalizers, metal3.SecretFinalizer) {
		secret.Finalizers = append(secret.Finalizers, metal3.SecretFinalizer)
		changed = true
	}
	if !slices.ContainsFunc(secret.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == host.UID }) {
		secret.OwnerReferences = append(secret.OwnerReferences, metav1.OwnerReference{
			APIVersion: metal3.SchemeGroupVersion.String(), Kind: "BareMetalHost", Name: host.Name, UID: host.UID,
		})
		changed = true
	}
	return changed
}

// ownedByAnother tells whether another host claims the Secret too.
func ownedByAnother(secret *corev1.Secret, host *metal3.BareMetalHost) bool {
	return slices.ContainsFunc(secret.OwnerReferences, func(o metav1.OwnerReference) bool {
		return o.Kind == "BareMetalHost" && o.UID != host.UID
	})
}

func (s *Secrets) forgetObject(obj any) {
	if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.contents, key)
	}
}

// notify has changed called with namespace and name of each Secret that comes,
// goes or changes.
func (s *Secrets) notify(changed func(namespace, name string)) error {
	on := func(obj any) {
		if d, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = d.Obj
		}
		if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
			changed(m.Namespace, m.Name)
		}
	}
	_, err := s.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    on,
		UpdateFunc: func(_, obj any) { on(obj) },
		DeleteFunc: func(obj any) { on(obj); s.forgetObject(obj) },
	})
	return err
}
