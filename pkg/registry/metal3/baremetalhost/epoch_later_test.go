package baremetalhost_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
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

// TestLaterRecordIsKept checks that what a later version has recorded of a host survives what users write through this
// one, as during an upgrade with several replicas.
func TestLaterRecordIsKept(t *testing.T) {
	server, config := etcd3testing.NewUnsecuredEtcd3TestClientServer(t)
	config.Codec = baremetalhost.UpgradeRecords(plainCodec())
	for _, cache := range []string{"off", "on"} {
		t.Run("watch cache "+cache, func(t *testing.T) {
			store := newStore(t, *config, cache == "on")
			create(t, store, newHost("worker-0"))
			prefix := config.Prefix
			if cache == "on" {
				prefix += "/cached"
			}
			found, err := server.V3Client.Client.Get(t.Context(), prefix+"/metal3.io/baremetalhosts/", clientv3.WithPrefix())
			if err != nil || len(found.Kvs) != 1 {
				t.Fatalf("%d hosts in etcd, want 1: %v", len(found.Kvs), err)
			}
			later := fmt.Sprintf(`{"epoch":%d,"future":{"a":[1,2]},"asked":{"nodeUUID":"n","later":true}}`, metal3.RecordEpoch+1)
			if _, err := server.V3Client.Client.Put(t.Context(), string(found.Kvs[0].Key), string(withRecord(t, found.Kvs[0].Value, later))); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the later record is read", func() bool {
				return get(t, store, "worker-0").Status.Record.Epoch > metal3.RecordEpoch
			})

			host := get(t, store, "worker-0")
			host.Spec.Online, host.Labels = true, map[string]string{"by": "somebody"}
			if _, err := put(inNamespace(t), store, host); err != nil {
				t.Fatal(err)
			}
			hosts := baremetalhost.NewHosts(store)
			recorded := get(t, store, "worker-0")
			recorded.Annotations = map[string]string{"by": "the server"}
			if _, err := hosts.Record(t.Context(), recorded); err != nil {
				t.Fatal(err)
			}

			found, err = server.V3Client.Client.Get(t.Context(), string(found.Kvs[0].Key))
			if err != nil {
				t.Fatal(err)
			}
			var stored struct {
				Metadata struct{ Labels, Annotations map[string]string }
				Spec     struct{ Online bool }
				Status   struct{ Record json.RawMessage }
			}
			if err := json.Unmarshal(found.Kvs[0].Value, &stored); err != nil {
				t.Fatal(err)
			}
			var compact bytes.Buffer
			if err := json.Compact(&compact, stored.Status.Record); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(later, compact.String()); diff != "" {
				t.Errorf("the record in etcd (-the later version's +now):\n%s", diff)
			}
			if !stored.Spec.Online || stored.Metadata.Labels["by"] != "somebody" || stored.Metadata.Annotations["by"] != "the server" {
				t.Errorf("the host in etcd is %s", found.Kvs[0].Value)
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

// TestNothingIsAddedToLaterRecord: what a user asks for is refused if it had to be added to the record of a later version, where it
// would be forgotten.
func TestNothingIsAddedToLaterRecord(t *testing.T) {
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
		requests := map[string]func() error{
			"rebuild": func() error {
				_, err := baremetalhost.NewRebuildREST(sources, rebuilds{}, o).(rest.NamedCreater).Create(genericapirequest.WithNamespace(t.Context(), namespace),
					"worker-0", &metal3.HostRebuild{}, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
				return err
			},
			"hard power-off": func() error {
				_, err := power.(rest.NamedCreater).Create(genericapirequest.WithNamespace(t.Context(), namespace), "worker-0",
					&metal3.HostPower{Spec: metal3.HostPowerSpec{Action: metal3.PowerActionOff, Mode: metal3.PowerModeHard}}, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
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
