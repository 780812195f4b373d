// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/store"
)

func TestAttachmentUsers(t *testing.T) {
	eachCache(t, func(t *testing.T, api *genericregistry.Store) {
		refer := func(ns, name string, interfaces ...metal3.NetworkInterface) {
			host := newHost(name)
			host.Namespace, host.Spec.NetworkInterfaces = ns, interfaces
			ctx := genericapirequest.WithNamespace(t.Context(), ns)
			if _, err := api.Create(ctx, host, rest.ValidateAllObjectFunc, &metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		to := func(ns, name string) *metal3.HostNetworkAttachmentRef {
			return &metal3.HostNetworkAttachmentRef{Namespace: ns, Name: name}
		}
		refer("a", "no-interfaces")
		refer("a", "own",
			metal3.NetworkInterface{Name: "eno1", HostNetworkAttachment: to("", "net")},
			metal3.NetworkInterface{Name: "eno2"},
			metal3.NetworkInterface{Name: "eno3", HostNetworkAttachment: to("", "other")},
			metal3.NetworkInterface{MACAddress: "00:00:5e:00:53:01", HostNetworkAttachment: to("a", "net")})
		refer("b", "far", metal3.NetworkInterface{Name: "eno1", HostNetworkAttachment: to("a", "net")})
		refer("b", "own", metal3.NetworkInterface{Name: "eno1", HostNetworkAttachment: to("", "net")})
		for _, test := range []struct {
			ns, name string
			want     []string
		}{
			{"a", "net", []string{"host own, interface eno1", "host own, interface 00:00:5e:00:53:01"}},
			{"b", "net", []string{"host own, interface eno1"}},
			{"a", "no-such", nil},
			{"c", "net", nil},
		} {
			got, err := store.NewHosts(api).AttachmentUsers(t.Context(), test.ns, test.name)
			if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
				t.Errorf("%s/%s (- want, + got):\n%s%v", test.ns, test.name, diff, err)
			}
		}
	})
}
