package drive

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/enginetest"
)

// TestUnreachableWithManyHosts: with ten thousand hosts and an etcd that takes 100 ms for
// a write, all hosts say within a few calls that Ironic is away, and each is written once.
func TestUnreachableWithManyHosts(t *testing.T) {
	const hosts, maxCalls = 10000, 3
	synctest.Test(t, func(t *testing.T) {
		store := enginetest.NewHosts()
		for i := range hosts {
			host := newHost()
			host.Name = enginetest.HostName(i)
			store.Add(host)
		}
		store.BeforeRecord = func(*metal3.BareMetalHost) { time.Sleep(100 * time.Millisecond) }
		p := &poller{c: &Controller{hosts: store}, downSince: time.Now()}
		calls := 1
		for ; !p.reportUnreachable(t.Context(), &ironic.UnavailableError{Reason: "connection refused"}); calls++ {
			if calls == maxCalls {
				t.Fatalf("not complete after %d calls", calls)
			}
		}
		if store.Records != hosts {
			t.Errorf("%d writes of %d hosts", store.Records, hosts)
		}
		list, err := store.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			if !meta.IsStatusConditionFalse(list.Items[i].Status.Conditions, metal3.IronicReachableCondition) {
				t.Fatalf("%s does not say that Ironic is away", list.Items[i].Name)
			}
		}
		t.Logf("complete after %d calls", calls)
	})
}
