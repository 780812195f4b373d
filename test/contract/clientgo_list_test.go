// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/generated/clientset/versioned/scheme"
)

// newerOrSame is an error unless a resourceVersion is at least as new as another,
// by the order that Kubernetes promises for all of them.
func newerOrSame(version, than string) error {
	order, err := resourceversion.CompareResourceVersion(version, than)
	if err == nil && order < 0 {
		err = fmt.Errorf("resourceVersion %s is older than %s", version, than)
	}
	return err
}

func descriptions(list *metal3.BareMetalHostList) map[string]string {
	all := map[string]string{}
	for _, host := range list.Items {
		all[host.Name] = host.Spec.Description
	}
	return all
}

// TestClientGoListVersions: what a list shows for each way of naming a
// resourceVersion.
func TestClientGoListVersions(t *testing.T) {
	t.Parallel()
	ctx, ns := s.Begin(t)
	idleHost(t, ctx, ns, "a")
	first := s.PatchHost(t, ctx, ns, "a", `{"spec":{"description":"first"}}`)
	s.PatchHost(t, ctx, ns, "a", `{"spec":{"description":"second"}}`)
	last := idleHost(t, ctx, ns, "b")
	then, now := map[string]string{"a": "first"}, map[string]string{"a": "second", "b": ""}
	tests := []struct {
		name    string
		options metav1.ListOptions
		want    map[string]string
		exactly bool // the list is of the named version
	}{
		{"the latest", metav1.ListOptions{}, now, false},
		{"any", metav1.ListOptions{ResourceVersion: "0"}, now, false},
		{"any, said otherwise", metav1.ListOptions{ResourceVersion: "0", ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan}, now, false},
		{"any, with a limit", metav1.ListOptions{ResourceVersion: "0", Limit: 10}, now, false},
		{"not older than an old one", metav1.ListOptions{ResourceVersion: first.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan}, now, false},
		{"not older than the latest", metav1.ListOptions{ResourceVersion: last.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan}, now, false},
		{"not older than, as informers of old say it", metav1.ListOptions{ResourceVersion: first.ResourceVersion}, now, false},
		{"exactly an old one", metav1.ListOptions{ResourceVersion: first.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact}, then, true},
		{"exactly, as of old, with a limit", metav1.ListOptions{ResourceVersion: first.ResourceVersion, Limit: 10}, then, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			list, err := s.Hosts(ns).List(ctx, test.options)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, descriptions(list)); diff != "" {
				t.Errorf("hosts and their descriptions (-want +got):\n%s", diff)
			}
			if test.exactly {
				if list.ResourceVersion != first.ResourceVersion {
					t.Errorf("the list is of resourceVersion %s, want %s", list.ResourceVersion, first.ResourceVersion)
				}
			} else if err := newerOrSame(list.ResourceVersion, last.ResourceVersion); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestClientGoListRefused: lists of resourceVersions that do not exist.
func TestClientGoListRefused(t *testing.T) {
	t.Parallel()
	ctx, ns := s.Begin(t)
	host := idleHost(t, ctx, ns, "a")
	version, err := strconv.ParseUint(host.ResourceVersion, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	future := strconv.FormatUint(version+1_000_000, 10)
	tests := []struct {
		name    string
		options metav1.ListOptions
		is      func(error) bool
	}{
		{"not a number", metav1.ListOptions{ResourceVersion: "x"}, func(err error) bool { return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) }},
		{"exactly none", metav1.ListOptions{ResourceVersionMatch: metav1.ResourceVersionMatchExact}, apierrors.IsInvalid},
		{"a match that there is not", metav1.ListOptions{ResourceVersion: "1", ResourceVersionMatch: "Older"}, apierrors.IsInvalid},
		{"a broken continue token", metav1.ListOptions{Limit: 1, Continue: "abc"}, apierrors.IsBadRequest},
		{"a field that cannot be selected by", metav1.ListOptions{FieldSelector: "spec.description=x"}, apierrors.IsBadRequest},
		// Informers know by it that they must wait for a server that lags behind.
		{"one of the future", metav1.ListOptions{ResourceVersion: future, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan}, func(err error) bool {
			return apierrors.IsTimeout(err) && apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			// Without the repetitions that Retry-After has clients do.
			err := s.Metal3.Metal3V1alpha1().RESTClient().Get().Namespace(ns).Resource("baremetalhosts").
				VersionedParams(&test.options, scheme.ParameterCodec).MaxRetries(0).Do(ctx).Error()
			if !test.is(err) {
				t.Errorf("%T %v", err, err)
			}
		})
	}
}
