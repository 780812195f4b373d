// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/registry/rest"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/baremetalhost"
	"github.com/metal3-io/metal3-apiserver/pkg/store"
	"github.com/metal3-io/metal3-apiserver/test/storetest"
)

// TestLaterRecordIsLeftAlone checks that nobody changes or deletes, through this version, a host that a later one has recorded, as
// during an upgrade with several replicas, and that clients try again.
func TestLaterRecordIsLeftAlone(t *testing.T) {
	storetest.EachCache(t, store.Compact(storetest.Codec()), func(t *testing.T, options storetest.Options) {
		api := newStore(t, options)
		storetest.Create(t, api, newHost("worker-0"))
		before := get(t, api, "worker-0")
		stored := func() *mvccpb.KeyValue {
			t.Helper()
			found, err := options.Etcd.V3Client.Client.Get(t.Context(), options.Config.Prefix+"/metal3.io/baremetalhosts/", clientv3.WithPrefix())
			if err != nil || len(found.Kvs) != 1 {
				t.Fatalf("%d hosts in etcd, want 1: %v", len(found.Kvs), err)
			}
			return found.Kvs[0]
		}
		later := fmt.Sprintf(`{"epoch":%d,"future":{"a":[1,2]},"asked":{"nodeUUID":"n","later":true}}`, metal3.RecordEpoch+1)
		written := withRecord(t, stored().Value, later)
		if _, err := options.Etcd.V3Client.Client.Put(t.Context(), string(stored().Key), string(written)); err != nil {
			t.Fatal(err)
		}

		hosts, status := store.NewHosts(api), baremetalhost.NewStatusREST(baremetalhost.NewREST(api, struct{ baremetalhost.Refresher }{}, nil, nil), scheme, nil)
		writes := map[string]func(*metal3.BareMetalHost) error{
			"PUT": func(h *metal3.BareMetalHost) error {
				h.Spec.Online = true
				_, err := storetest.Put(t, api, h)
				return err
			},
			"PUT of the status": func(h *metal3.BareMetalHost) error {
				h.Status.PoweredOn = true
				_, err := storetest.Put(t, status, h)
				return err
			},
			"DELETE": func(*metal3.BareMetalHost) error {
				_, _, err := api.Delete(storetest.InNamespace(t), "worker-0", rest.ValidateAllObjectFunc, &metav1.DeleteOptions{})
				return err
			},
			"DELETE of a collection": func(*metal3.BareMetalHost) error {
				_, err := api.DeleteCollection(storetest.InNamespace(t), rest.ValidateAllObjectFunc, &metav1.DeleteOptions{}, nil)
				return err
			},
			"record": func(h *metal3.BareMetalHost) error {
				h.Annotations = map[string]string{"by": "the server"}
				_, err := hosts.Record(t.Context(), h)
				return err
			},
		}
		for name, write := range writes {
			host := get(t, api, "worker-0")
			if !host.Status.Record.IsLater() {
				t.Fatalf("it is read with %+v", host.Status.Record)
			}
			err := write(host)
			if seconds, retry := apierrors.SuggestsClientDelay(err); !apierrors.IsServiceUnavailable(err) || !retry || seconds == 0 {
				t.Errorf("%s: %v", name, err)
			}
		}
		// What is written from what was read before the later version came is a conflict, or refused.
		if _, err := hosts.Record(t.Context(), before); !apierrors.IsConflict(err) {
			t.Errorf("a record from before: %v", err)
		}
		if now := stored(); !bytes.Equal(now.Value, written) {
			t.Errorf("the host in etcd is %s, was %s", now.Value, written)
		}
	})
}

// withRecord replaces the record of a host in JSON.
func withRecord(t *testing.T, host []byte, record string) []byte {
	t.Helper()
	var fields map[string]any
	if err := json.Unmarshal(host, &fields); err != nil {
		t.Fatal(err)
	}
	fields["status"].(map[string]any)["record"] = json.RawMessage(record)
	data, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
