package baremetalhost_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	etcd3testing "k8s.io/apiserver/pkg/storage/etcd3/testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/baremetalhost"
)

// TestLaterRecordIsLeftAlone checks that nobody changes or deletes, through this version, a host that a later one has recorded, as
// during an upgrade with several replicas, and that clients try again.
func TestLaterRecordIsLeftAlone(t *testing.T) {
	server, config := etcd3testing.NewUnsecuredEtcd3TestClientServer(t)
	config.Codec = baremetalhost.Compact(plainCodec())
	for _, cache := range []string{"off", "on"} {
		t.Run("watch cache "+cache, func(t *testing.T) {
			store := newStore(t, *config, cache == "on")
			create(t, store, newHost("worker-0"))
			before := get(t, store, "worker-0")
			prefix := config.Prefix
			if cache == "on" {
				prefix += "/cached"
			}
			stored := func() *mvccpb.KeyValue {
				t.Helper()
				found, err := server.V3Client.Client.Get(t.Context(), prefix+"/metal3.io/baremetalhosts/", clientv3.WithPrefix())
				if err != nil || len(found.Kvs) != 1 {
					t.Fatalf("%d hosts in etcd, want 1: %v", len(found.Kvs), err)
				}
				return found.Kvs[0]
			}
			later := fmt.Sprintf(`{"epoch":%d,"future":{"a":[1,2]},"asked":{"nodeUUID":"n","later":true}}`, metal3.RecordEpoch+1)
			written := withRecord(t, stored().Value, later)
			if _, err := server.V3Client.Client.Put(t.Context(), string(stored().Key), string(written)); err != nil {
				t.Fatal(err)
			}

			hosts, status := baremetalhost.NewHosts(store), baremetalhost.NewStatusREST(baremetalhost.NewREST(store, nil, nil, nil), scheme)
			writes := map[string]func(*metal3.BareMetalHost) error{
				"PUT": func(h *metal3.BareMetalHost) error {
					h.Spec.Online = true
					_, err := put(inNamespace(t), store, h)
					return err
				},
				"PUT of the status": func(h *metal3.BareMetalHost) error {
					h.Status.PoweredOn = true
					_, err := put(inNamespace(t), status, h)
					return err
				},
				"DELETE": func(*metal3.BareMetalHost) error {
					_, _, err := store.Delete(inNamespace(t), "worker-0", rest.ValidateAllObjectFunc, &metav1.DeleteOptions{})
					return err
				},
				"DELETE of a collection": func(*metal3.BareMetalHost) error {
					_, err := store.DeleteCollection(inNamespace(t), rest.ValidateAllObjectFunc, &metav1.DeleteOptions{}, nil)
					return err
				},
				"record": func(h *metal3.BareMetalHost) error {
					h.Annotations = map[string]string{"by": "the server"}
					_, err := hosts.Record(t.Context(), h)
					return err
				},
			}
			for name, write := range writes {
				host := get(t, store, "worker-0")
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

// rebuilds records requested rebuilds as failures, which a test can see.
type rebuilds struct{}

func (rebuilds) RequestRebuild(host *metal3.BareMetalHost, _ *ironic.Node) error {
	host.Status.Record.Failure = &metal3.Failure{}
	return nil
}

// TestLaterRecordIsNotActedOn: no action is carried out on a host that a later version has recorded, because whether its node is its
// own is decided from the record.
func TestLaterRecordIsNotActedOn(t *testing.T) {
	for _, epoch := range []int{metal3.RecordEpoch, metal3.RecordEpoch + 1} {
		o := &oneHost{
			host: newHost("worker-0", func(h *metal3.BareMetalHost) {
				h.Spec.Online, h.Status.Provisioning.ID, h.Status.Record.Epoch = true, "n", epoch
			}),
			node:  &ironic.Node{UUID: "n", ProvisionState: ironic.Active, PowerState: ironic.PowerOn},
			reads: -1, writes: -1,
		}
		sources := baremetalhost.Sources{Hosts: o, Ironic: o.ironic, Prover: o, Refresher: o, Passwords: o}
		power := baremetalhost.NewPowerREST(sources, baremetalhost.HostChangers{User: o, Own: o}, noDataImages{}, noPolicies{}, o.cuts())
		ctx := genericapirequest.WithNamespace(t.Context(), namespace)
		requests := map[string]func() error{
			"rebuild": func() error {
				_, err := baremetalhost.NewRebuildREST(sources, rebuilds{}, o).(rest.NamedCreater).Create(ctx,
					"worker-0", &metal3.HostRebuild{}, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
				return err
			},
			"hard power-off": func() error {
				_, err := power.(rest.NamedCreater).Create(ctx, "worker-0",
					&metal3.HostPower{Spec: metal3.HostPowerSpec{Action: metal3.PowerActionOff, Mode: metal3.PowerModeHard}}, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
				return err
			},
			"GET of the power": func() error {
				_, err := power.(rest.Getter).Get(ctx, "worker-0", &metav1.GetOptions{})
				return err
			},
		}
		for name, request := range requests {
			err := request()
			if later := epoch > metal3.RecordEpoch; apierrors.IsServiceUnavailable(err) != later || !later && err != nil {
				t.Errorf("%s of a host with epoch %d: %v", name, epoch, err)
			}
		}
		record := o.host.Status.Record
		if epoch > metal3.RecordEpoch && (record.Failure != nil || record.PowerCut != nil || !o.host.Spec.Online) {
			t.Errorf("the refused requests have left %+v, online %t", record, o.host.Spec.Online)
		}
	}
}
