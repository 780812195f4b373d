// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// isMadeByServer reports whether an object is one that the server makes along with a host: its
// HostFirmwareSettings, or a FirmwareSchema of such settings.
func isMadeByServer(resource string, owners []metav1.OwnerReference) bool {
	return slices.ContainsFunc(owners, func(owner metav1.OwnerReference) bool {
		switch resource {
		case "hostfirmwaresettings":
			return owner.Kind == "BareMetalHost"
		case "firmwareschemas":
			return owner.Kind == "HostFirmwareSettings" && owner.Name != newSettings
		}
		return false
	})
}

// uidsIn are the UIDs of all Secrets and of all objects of our kinds in a namespace, but for those
// that the server makes along with hosts.
func uidsIn(t *testing.T, ns string) map[string]types.UID {
	t.Helper()
	found := map[string]types.UID{}
	eventually(t, func(ctx context.Context) error {
		clear(found)
		secrets, err := s.Core.CoreV1().Secrets(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, secret := range secrets.Items {
			found["secrets/"+secret.Name] = secret.UID
		}
		for _, kind := range s.kinds {
			if kind.ClusterScoped {
				continue
			}
			list, err := s.Dynamic.Resource(metal3.SchemeGroupVersion.WithResource(kind.Resource)).Namespace(ns).List(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			for _, item := range list.Items {
				if !isMadeByServer(kind.Resource, item.GetOwnerReferences()) {
					found[kind.Resource+"/"+item.GetName()] = item.GetUID()
				}
			}
		}
		return nil
	})
	return found
}

// expectUIDs compares with an earlier look, after the garbage collector has had the
// occasion to remove what it takes for orphaned.
func expectUIDs(t *testing.T, ns string, want map[string]types.UID) {
	t.Helper()
	collectGarbage(t, ns)
	collectGarbage(t, ns)
	got := uidsIn(t, ns)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("UIDs are not what they were (-before +now):\n%s", diff)
	}
}

// collectGarbage waits until the garbage collector has removed an object whose owner
// does not exist: it looks for owners, and where it is told to. While it cannot look, because
// kube-apiserver has no server for the kind, it waits twice as long before each try of the same object,
// up to a quarter of an hour. So there is another object every ten seconds.
func collectGarbage(t *testing.T, ns string) {
	t.Helper()
	secrets := s.Core.CoreV1().Secrets(ns)
	var canaries []string
	var created time.Time
	eventually(t, func(ctx context.Context) error {
		if time.Since(created) > 10*time.Second {
			canary, err := secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
				GenerateName: "orphan-",
				OwnerReferences: []metav1.OwnerReference{{
					APIVersion: metal3.SchemeGroupVersion.String(), Kind: "BareMetalHost", Name: "nobody", UID: types.UID(uuid.NewString()),
				}},
			}}, metav1.CreateOptions{})
			if err != nil {
				return err
			}
			canaries, created = append(canaries, canary.Name), time.Now()
		}
		for _, name := range canaries {
			if _, err := secrets.Get(ctx, name, metav1.GetOptions{}); apierrors.IsNotFound(err) {
				return nil
			} else if err != nil {
				return err
			}
		}
		return fmt.Errorf("Secrets %s/%v are there", ns, canaries)
	})
	for _, name := range canaries {
		if err := secrets.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
	}
}

// gone waits until the Secret and the HardwareData of a host that was deleted are gone. The garbage collector removes the second:
// it may have looked for the owner while nobody served hosts, and then waits before it looks again.
func gone(t *testing.T, ns, host string) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		_, err := s.Core.CoreV1().Secrets(ns).Get(ctx, host+"-bmc", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return errors.Join(err, fmt.Errorf("Secret %s/%s-bmc is there", ns, host))
		}
		if _, err = s.Metal3.Metal3V1alpha1().HardwareData(ns).Get(ctx, host, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return errors.Join(err, fmt.Errorf("HardwareData %s/%s is there", ns, host))
		}
		return nil
	})
}

// expectText looks for texts in what a command has printed.
func expectText(t *testing.T, out string, want ...string) {
	t.Helper()
	for _, text := range want {
		if !strings.Contains(out, text) {
			t.Errorf("there is no %q in the output", text)
		}
	}
}

// unlock has a namespace's objects go: no finalizer is anybody's any more.
func unlock(t *testing.T, ns string) {
	t.Helper()
	ctx := t.Context()
	patch := []byte(`{"metadata":{"finalizers":null}}`)
	if err := s.Core.CoreV1().Namespaces().Delete(ctx, ns, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for name := range uidsIn(t, ns) {
		resource, name, _ := strings.Cut(name, "/")
		gvr := metal3.SchemeGroupVersion.WithResource(resource)
		if resource == "secrets" {
			gvr = corev1.SchemeGroupVersion.WithResource(resource)
		}
		group.Go(func() error {
			_, err := s.Dynamic.Resource(gvr).Namespace(ns).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) error {
		_, err := s.Core.CoreV1().Namespaces().Get(ctx, ns, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, fmt.Errorf("namespace %s is still there", ns))
	})
}
