package app

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/apiserver"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/baremetalhost"
)

// formerPlan is a host as the last version without a record of its own had it in etcd, with everything that this
// version planned a step from, and the step.
type formerPlan struct {
	Situation  map[string]json.RawMessage `json:"situation"`
	AnsweredAt time.Time                  `json:"answeredAt"`
	Step       formerStep                 `json:"step"`
}

type formerStep struct {
	Do      lifecycle.Action         `json:"do"`
	Target  ironic.ProvisionTarget   `json:"target"`
	Power   ironic.PowerTarget       `json:"power"`
	State   metal3.ProvisioningState `json:"state"`
	Reason  string                   `json:"reason"`
	Error   metal3.ErrorType         `json:"error"`
	Limited bool                     `json:"limited"`
	Retry   bool                     `json:"retry"`
	Failed  bool                     `json:"failed"`
	After   time.Duration            `json:"after"`
}

// TestUpgradedFleetGoesOn holds that a fleet goes on as it was after an upgrade: for each host that the last version
// without a record has in etcd, the same step is planned, so that no node is registered again, cleaned, deployed
// or switched because of the upgrade. The hosts are those of the life of many, in all their states.
func TestUpgradedFleetGoesOn(t *testing.T) {
	codec := baremetalhost.UpgradeRecords(apiserver.Codecs.LegacyCodec(metal3.SchemeGroupVersion))
	files, err := filepath.Glob("testdata/before-epoch-1/*.json")
	if err != nil || len(files) < 50 {
		t.Fatalf("%d hosts: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			plan := readFormerPlan(t, file)
			s := situationOf(t, codec, plan)
			step := lifecycle.Next(s)
			got := formerStep{step.Do, step.Target, step.Power, step.State, step.Reason, step.Error, step.Limited, step.Retry, step.Failed, step.After}
			if diff := cmp.Diff(plan.Step, got); diff != "" {
				t.Errorf("the next step (-before the upgrade +after):\n%s", diff)
			}
			if s.Host.Status.Record.Epoch != metal3.RecordEpoch && s.Host.Status.Ironic != nil {
				t.Errorf("the first observation has left the epoch at %d", s.Host.Status.Record.Epoch)
			}
		})
	}
}

func readFormerPlan(t *testing.T, file string) formerPlan {
	t.Helper()
	var plan formerPlan
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, &plan)
	}
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// situationOf returns the situation of a host that is read from etcd and observed after the upgrade.
func situationOf(t *testing.T, codec runtime.Codec, plan formerPlan) lifecycle.Situation {
	t.Helper()
	stored := map[string]any{}
	decode := func(field string, into any) {
		t.Helper()
		if raw, has := plan.Situation[field]; has {
			if err := json.Unmarshal(raw, into); err != nil {
				t.Fatalf("%s: %v", field, err)
			}
		}
	}
	decode("Host", &stored)
	stored["apiVersion"], stored["kind"] = metal3.SchemeGroupVersion.String(), "BareMetalHost"
	data, err := json.Marshal(stored)
	if err != nil {
		t.Fatal(err)
	}
	obj, _, err := codec.Decode(data, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	host := obj.(*metal3.BareMetalHost)
	var node *ironic.Node
	decode("Node", &node)

	s := lifecycle.Situation{ObservedAt: host.CreationTimestamp.Time, OtherNodes: lifecycle.OtherNodes{AsOf: time.Now()}, IronicNow: plan.AnsweredAt}
	decode("SecretVersion", &s.SecretVersion)
	decode("NetworkVersion", &s.NetworkVersion)
	decode("SettingsDigest", &s.SettingsDigest)
	decode("HasHardwareData", &s.HasHardwareData)
	decode("MaxRetries", &s.MaxRetries)
	decode("Restored", &s.Restored)
	decode("Cluster", &s.Cluster)
	decode("NodeOfAnother", &s.NodeOfAnother)
	decode("NodesWithSameBMC", &s.OtherNodes.Exist)
	decode("SameBMC", &s.SameBMC)
	decode("ProvisioningNetworkDisabled", &s.ProvisioningNetworkDisabled)
	decode("CanService", &s.CanService)
	decode("CanAbortService", &s.CanAbortService)
	if host.Status.Provisioning.ID != "" && !lifecycle.IsDetached(host) && host.Status.Provisioning.State != metal3.StateNone {
		if node != nil {
			node.AnsweredAt = plan.AnsweredAt
		}
		host.Status, _ = lifecycle.Observe(host, lifecycle.Observation{Node: node}, time.Now())
	}
	s.Host = host
	return s
}
