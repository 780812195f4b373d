// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"testing"

	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"

	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/baremetalhost"
	"github.com/metal3-io/metal3-apiserver/test/storetest"
)

// What tests of all stores use.
var scheme, newHost, get = storetest.Scheme, storetest.NewHost, storetest.GetHost

// eachCache runs a test on the API's stores of hosts in one real etcd: with the watch cache off, and on.
func eachCache(t *testing.T, test func(t *testing.T, api *genericregistry.Store)) {
	t.Helper()
	storetest.EachCache(t, storetest.Codec(), func(t *testing.T, options storetest.Options) { test(t, newStore(t, options)) })
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
