// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/install"
	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/baremetalhost"
	"github.com/metal3-io/metal3-apiserver/pkg/store/storetest"
)

var scheme = runtime.NewScheme()

func init() { install.Install(scheme) }

func plainCodec() runtime.Codec {
	return serializer.NewCodecFactory(scheme).LegacyCodec(metal3.SchemeGroupVersion)
}

// eachCache runs a test on the API's stores of hosts in one real etcd: with the watch cache off, and on.
func eachCache(t *testing.T, test func(t *testing.T, api *genericregistry.Store)) {
	t.Helper()
	storetest.EachCache(t, plainCodec(), func(t *testing.T, options storetest.Options) { test(t, newStore(t, options)) })
}

func newStore(t *testing.T, options storetest.Options) *genericregistry.Store {
	t.Helper()
	api, err := baremetalhost.NewStore(scheme, options, nil)
	if err != nil {
		t.Fatal(err)
	}
	storetest.Use(t, api)
	return api
}

func newHost(name string, change ...func(*metal3.BareMetalHost)) *metal3.BareMetalHost {
	host := &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: storetest.Namespace}}
	host.Spec.BMC = metal3.BMCDetails{Address: "ipmi://192.168.111.1:6233", CredentialsName: name + "-bmc"}
	for _, c := range change {
		c(host)
	}
	return host
}

func get(t *testing.T, api rest.Getter, name string) *metal3.BareMetalHost {
	t.Helper()
	return storetest.Get(t, api, name).(*metal3.BareMetalHost)
}
