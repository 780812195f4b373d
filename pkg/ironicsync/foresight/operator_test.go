// SPDX-License-Identifier: Apache-2.0

package foresight

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// TestUnderOperator: what the operator would do to machines that this server leaves alone is said before it has the hosts.
func TestUnderOperator(t *testing.T) {
	deleted := func(h *metal3.BareMetalHost) { h.DeletionTimestamp = &metav1.Time{Time: metav1.Now().Time} }
	external := func(h *metal3.BareMetalHost) { h.Spec.ExternallyProvisioned = true }
	custom := func(h *metal3.BareMetalHost) { h.Spec.CustomDeploy = &metal3.CustomDeploy{Method: "install"} }
	keepPower := func(h *metal3.BareMetalHost) {
		h.Status.Record.Deployment = &metal3.Deployment{NodeUUID: "n", KeepPower: true}
	}
	off := func(h *metal3.BareMetalHost) { h.Spec.Online = false }
	held := func(h *metal3.BareMetalHost) {
		h.Status.Record.Hold = &metal3.Hold{Reason: metal3.AnotherDeploymentReason, Message: "Node n runs something else. Confirm it"}
	}
	in := func(name string) change { return func(h *metal3.BareMetalHost) { h.Status.Record.Ironic = name } }
	moving := func(h *metal3.BareMetalHost) { h.Status.Record.Transfer = &metal3.Transfer{To: "b"} }
	detached := func(h *metal3.BareMetalHost) { h.Status.OperationalStatus = metal3.OperationalStatusDetached }
	paused := func(h *metal3.BareMetalHost) {
		h.Annotations = map[string]string{metal3.PausedAnnotation: "metal3.io/capm3"}
	}
	registration := func(reason string) change {
		return func(h *metal3.BareMetalHost) { h.Status.Record.Registration = &metal3.Registration{Reason: reason} }
	}
	ofBackup := func(h *metal3.BareMetalHost) { h.Status.Record.AsOfRestore = -1 }
	const erased, switchedOff, second = "would be undeployed and its disks erased", "would be switched off", "would get a second node"
	for name, test := range map[string]struct {
		host *metal3.BareMetalHost
		want []string // a part of each harm
	}{
		"of a backup, is deleted":          {host: newHost("w", metal3.StateProvisioned, runs("a"), wants("a"), deleted, ofBackup), want: []string{"is of a backup"}},
		"of a backup, is deleted and held": {host: newHost("w", metal3.StateProvisioned, runs("a"), wants("a"), deleted, ofBackup, held), want: []string{"is held"}},
		"of a backup":                      {host: newHost("w", metal3.StateProvisioned, runs("a"), wants("a"), ofBackup)},
		"available":                        {host: newHost("w", metal3.StateAvailable)},
		"available, switched off":          {host: newHost("w", metal3.StateAvailable, off)},
		"runs its image":                   {host: newHost("w", metal3.StateProvisioned, runs("a"), wants("a"))},
		"its image was removed":            {host: newHost("w", metal3.StateProvisioned, runs("a"))},
		"is deleted":                       {host: newHost("w", metal3.StateProvisioned, runs("a"), wants("a"), deleted)},
		"deployed by others":               {host: newHost("w", metal3.StateProvisioned), want: []string{erased}},
		"just said to be external":         {host: newHost("w", metal3.StateProvisioned, external), want: []string{erased}},
		"deployed by others, paused":       {host: newHost("w", metal3.StateProvisioned, paused), want: []string{erased}},
		"deployed by others, deleted":      {host: newHost("w", metal3.StateProvisioned, wants("a"), deleted), want: []string{erased}},
		"taken to run its image":           {host: newHost("w", metal3.StateProvisioned, wants("a"))},
		"taken to run its procedure":       {host: newHost("w", metal3.StateProvisioned, custom)},
		"external":                         {host: newHost("w", metal3.StateExternallyProvisioned, external)},
		"external, deleted":                {host: newHost("w", metal3.StateExternallyProvisioned, external, deleted)},
		"no longer external":               {host: newHost("w", metal3.StateExternallyProvisioned), want: []string{erased}},
		"no longer external, its image":    {host: newHost("w", metal3.StateExternallyProvisioned, wants("a"))},
		"without online":                   {host: newHost("w", metal3.StateExternallyProvisioned, external, keepPower, off), want: []string{switchedOff}},
		"without online, set since":        {host: newHost("w", metal3.StateExternallyProvisioned, external, keepPower)},
		"held":                             {host: newHost("w", metal3.StateProvisioned, runs("a"), wants("a"), held), want: []string{"is held for AnotherDeployment, which the operator does not heed: Node n runs"}},
		"its BMC is in use":                {host: newHost("w", metal3.StateRegistering, registration(metal3.BMCInUseReason)), want: []string{"a second host of that machine"}},
		"its BMC is in use, held":          {host: newHost("w", metal3.StateRegistering, registration(metal3.BMCInUseReason), held), want: []string{"is held"}},
		"refused":                          {host: newHost("w", metal3.StateRegistering, registration(metal3.IronicRefusedReason))},
		"in another Ironic":                {host: newHost("w", metal3.StateAvailable, in("b")), want: []string{second}},
		"on its way to another Ironic":     {host: newHost("w", metal3.StateAvailable, moving), want: []string{second}},
		"taken out of another Ironic":      {host: newHost("w", metal3.StateAvailable, in("b"), detached)},
		"in another Ironic, not its image": {host: newHost("w", metal3.StateProvisioned, in("b")), want: []string{erased, second}},
	} {
		t.Run(name, func(t *testing.T) {
			harms := UnderOperator([]*metal3.BareMetalHost{test.host}, 0)
			if len(harms) != len(test.want) {
				t.Fatalf("got %q, want %q", harms, test.want)
			}
			for i, want := range test.want {
				if !strings.HasPrefix(harms[i], "BareMetalHost metal3/w ") || !strings.Contains(harms[i], want) {
					t.Errorf("got %q, want %q", harms[i], want)
				}
			}
		})
	}
}
