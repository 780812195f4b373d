// SPDX-License-Identifier: Apache-2.0

package app

import (
	"runtime/debug"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3api "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/apiserver"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3"
	"github.com/metal3-io/metal3-apiserver/test/storetest"
)

// TestStoresLimitChanges: a user cannot fill a quarter of GOMEMLIMIT with former versions of a large object.
func TestStoresLimitChanges(t *testing.T) {
	const limit, size = 64 << 20, 300 << 10
	before := debug.SetMemoryLimit(limit)
	options := storeOptions(storetest.New(t, apiserver.Codecs.LegacyCodec(metal3api.SchemeGroupVersion)))
	debug.SetMemoryLimit(before)
	stores, err := metal3.NewStores(apiserver.Scheme, options, nil)
	if err != nil {
		t.Fatal(err)
	}
	storetest.Use(t, stores.Hosts)
	for _, k := range stores.Kinds {
		storetest.Use(t, k.Store)
	}
	kind := stores.Kinds["hardwaredata"]
	data := storetest.Create(t, kind, &metal3api.HardwareData{ObjectMeta: metav1.ObjectMeta{Name: "worker-0", Namespace: storetest.Namespace}})
	for i := range limit / 4 / size {
		data.Spec.HardwareDetails = &metal3api.HardwareDetails{Hostname: strings.Repeat(string(rune('a'+i%26)), size)}
		data, err = storetest.Put(t, kind, data)
		if apierrors.IsTooManyRequests(err) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Errorf("a quarter of the memory is filled with former versions of an object of %d bytes", size)
}
