// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/generated/clientset/versioned"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// warnings keeps those that the answers of our server came with.
type warnings struct {
	mu   sync.Mutex
	text []string
}

func (w *warnings) HandleWarningHeader(_ int, _ string, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, text)
}

// readerOfWarnings returns a client of the server, and the warnings that come with its answers.
func readerOfWarnings(t *testing.T, ctx context.Context) (versioned.Interface, *warnings) {
	t.Helper()
	heard := &warnings{}
	config := rest.CopyConfig(bed(ctx).Server.Direct.Config)
	config.WarningHandler = heard
	client, err := versioned.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client, heard
}

// expectLists changes a node past us a few times. Each LIST shows it, and none comes with
// a warning that it is not live.
func expectLists(t *testing.T, ctx context.Context, ns, name string, sim *simulated) {
	t.Helper()
	hosts, heard := readerOfWarnings(t, ctx)
	for round := range 5 {
		reason := fmt.Sprint("round ", round)
		if err := sim.SetNode(ns+"~"+name, map[string]any{"maintenance": true, "maintenance_reason": reason}); err != nil {
			t.Fatal(err)
		}
		list, err := hosts.Metal3V1alpha1().BareMetalHosts(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			if host := &list.Items[i]; host.Name == name && (host.Status.Ironic == nil || host.Status.Ironic.MaintenanceReason != reason) {
				t.Errorf("round %d: LIST shows %+v, Ironic says %q", round, host.Status.Ironic, reason)
			}
		}
	}
	if err := sim.SetNode(ns+"~"+name, map[string]any{"maintenance": false, "maintenance_reason": nil}); err != nil {
		t.Fatal(err)
	}
	heard.mu.Lock()
	defer heard.mu.Unlock()
	if len(heard.text) > 0 {
		t.Errorf("%d LISTs warn, such as: %s", len(heard.text), heard.text[0])
	}
}

// says reports whether a host's error or one of its conditions has any of some words.
func says(h *metal3.BareMetalHost, words ...string) bool {
	texts := []string{h.Status.ErrorMessage}
	for _, c := range h.Status.Conditions {
		texts = append(texts, c.Message)
	}
	text := strings.ToLower(strings.Join(texts, "\n"))
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(text, strings.ToLower(word)) })
}

// rawInventory is the answer of GET inventory with some things that no machine should say.
func rawInventory(frequency, disks, lldp string) string {
	return `{"inventory": {"hostname": "h", "cpu": {"architecture": "x86_64", "count": 4, "frequency": ` + frequency + `},
		"memory": {"physical_mb": 1024}, "interfaces": [{"name": "eth0", "mac_address": "52:54:00:00:00:01", "has_carrier": true}],
		"disks": [` + disks + `], "boot": {}, "system_vendor": {}}, "plugin_data": {"parsed_lldp": {"eth0": {` + lldp + `}}}}`
}

// TestInventoryThatCannotBeKept: what is wrong with the inventory of one host is told of
// that host. All others are read from Ironic as ever.
func TestInventoryThatCannotBeKept(t *testing.T) {
	for name, inventory := range map[string]string{
		"FrequencyNaN": rawInventory(`"NaN"`, "", ""),
		"NoJSON":       rawInventory(`NaN`, "", ""), // as Python writes it
		// etcd takes 1.5 MiB.
		"TooLarge": rawInventory(`"2400"`, strings.Repeat(`{"name": "/dev/sda", "size": 1000, "model": "Spinner 4000", "serial": "S0001"},`, 30000)+`{"name": "/dev/sdb"}`, ""),
		// The API has VLANs up to 4094. All else of the inventory is taken over.
		"VLAN4095": rawInventory(`"2400"`, "", `"switch_port_untagged_vlan_id": 4095, "switch_port_vlans": [{"id": 4095, "name": "all"}]`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, ns := s.Begin(t)
			ctx, sim := onSimulatorOfItsOwn(t, ctx, ns, ironicsim.Options{})
			createSecretOnce(t, ctx, ns, "bmc")
			createHost(t, ctx, ns, "good", startBMC(t, ctx).Address(), "bmc", "", wholeLife)
			waitAvailable(t, ctx, ns, "good")
			createHost(t, ctx, ns, "bad", startBMC(t, ctx).Address(), "bmc", "", wholeLife)
			testbed.EventuallyEvery(t, ctx, 10*time.Millisecond, func() string {
				if err := sim.SetRawInventory(ns+"~bad", []byte(inventory)); err != nil {
					return err.Error()
				}
				return ""
			})
			testbed.Eventually(t, ctx, func() string {
				if node, _ := sim.Node(ns + "~bad"); node["inspection_finished_at"] == nil {
					return fmt.Sprintf("the node was not inspected: %v", node["provision_state"])
				}
				return ""
			})
			expectLists(t, ctx, ns, "good", sim)
			bed(ctx).WaitHost(t, ctx, ns, "bad", "says that its inventory cannot be used, or uses it but for what nobody can", func(h *metal3.BareMetalHost) bool {
				return says(h, "inventory", "hardware") || h.Status.HardwareDetails != nil && (name == "VLAN4095" || name == "FrequencyNaN")
			})
			expectLists(t, ctx, ns, "good", sim)
			if log, err := bed(ctx).Server.Logs(); err != nil || strings.Contains(log, "Ironic cannot be observed") {
				t.Errorf("the server takes it for a failure of Ironic's (%v)", err)
			}
		})
	}
}
