// SPDX-License-Identifier: Apache-2.0

package consumers

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// TestForgedConsumers: whoever writes hosts cannot have another user's plugin make any request that it
// would not make by itself.
func TestForgedConsumers(t *testing.T) {
	const group = "infrastructure.cluster.x-k8s.io/v1beta1"
	var mu sync.Mutex
	var requests []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		requests = append(requests, r.URL.Path)
		http.NotFound(w, r)
	}))
	defer server.Close()
	client, err := dynamic.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	resolve := func(ref corev1.ObjectReference) []string {
		requests = nil
		host := &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: "metal3", Name: "a", UID: "u"}}
		host.Spec.ConsumerRef = &ref
		Resolve(t.Context(), client, []*metal3.BareMetalHost{host})
		return requests
	}
	if got := resolve(corev1.ObjectReference{APIVersion: group, Kind: "Metal3Machine", Name: "m"}); len(got) != 1 || got[0] != "/apis/"+group+"/namespaces/metal3/metal3machines" {
		t.Errorf("for a Metal3Machine, the requests are %q", got)
	}
	for _, ref := range []corev1.ObjectReference{
		{APIVersion: "v1", Kind: "Secret", Name: "m"},
		{APIVersion: group, Kind: "x/../../../../../../api/v1/namespaces/kube-system/services/a/proxy/delete", Name: "m"},
		{APIVersion: group, Kind: "..", Name: "m"},
		{APIVersion: "../v1", Kind: "Machine", Name: "m"},
		{APIVersion: "cluster.x-k8s.io/..", Kind: "Machine", Name: "m"},
		{APIVersion: "a/b/c", Kind: "Machine", Name: "m"},
		{APIVersion: group, Kind: "Metal3Machine", Namespace: "../..", Name: "m"},
		{APIVersion: group, Kind: "Metal3Machine?watch=true", Name: "m"},
	} {
		if got := resolve(ref); len(got) != 0 {
			t.Errorf("for %+v, the requests are %q", ref, got)
		}
	}
}
