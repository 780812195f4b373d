// SPDX-License-Identifier: Apache-2.0

package foresight

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/deploy"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/destination"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

// Checks are what hosts are compared with.
type Checks struct {
	// BMCs are the allowed addresses of BMCs.
	BMCs destination.Policy
	// HasSecret reports whether a Secret exists. It is nil if that cannot be found out.
	HasSecret func(ctx context.Context, namespace, name string) (bool, error)
	// Drivers are those that Ironic has enabled. It is nil if they are not known.
	Drivers []string
}

// Report is what will become of hosts.
type Report struct {
	// Problems are what will be refused or held until somebody does something, and First is what will be done at first. Each
	// is a sentence that begins with the host.
	Problems, First []string
}

// Of returns what will become of hosts. The error is that of HasSecret.
func (c Checks) Of(ctx context.Context, hosts []*metal3.BareMetalHost) (Report, error) {
	var report Report
	problem := func(host *metal3.BareMetalHost, format string, args ...any) {
		report.Problems = append(report.Problems, name(host)+" "+fmt.Sprintf(format, args...))
	}
	for _, host := range hosts {
		for _, text := range c.access(ctx, host) {
			problem(host, "%s", text)
		}
		if missing, err := c.isSecretMissing(ctx, host); err != nil {
			return report, err
		} else if missing {
			problem(host, "will not be registered: Secret %s with the credentials of its BMC does not exist", host.Spec.BMC.CredentialsName)
		}
		for _, text := range first(host) {
			report.First = append(report.First, name(host)+" "+text)
		}
	}
	bmcs := by(hosts, func(host *metal3.BareMetalHost) []string { return lifecycle.BMCKey(host).IndexValues() })
	for _, pair := range pairs(hosts, bmcs, func(host *metal3.BareMetalHost) []string { return lifecycle.BMCKey(host).LookupValues() },
		func(a, b *metal3.BareMetalHost) bool { return lifecycle.BMCKey(a).Matches(lifecycle.BMCKey(b)) }) {
		problem(pair[0], "has the same BMC as %s: only one of them will be registered", name(pair[1]))
	}
	machines := by(hosts, lifecycle.MachineKeys)
	likeness := func(a, b *metal3.BareMetalHost) lifecycle.Likeness {
		return lifecycle.LikenessOf(a, b, func(key string) []*metal3.BareMetalHost { return machines[key] })
	}
	for _, pair := range pairs(hosts, machines, lifecycle.MachineKeys, func(a, b *metal3.BareMetalHost) bool {
		return likeness(a, b).IsSame() && !lifecycle.AreConfirmedApart(a, b) && !lifecycle.BMCKey(a).Matches(lifecycle.BMCKey(b))
	}) {
		problem(pair[0], "is of the same machine as %s, according to %s: one of them, or both, will be held", name(pair[1]), likeness(pair[0], pair[1]))
	}
	return report, nil
}

func name(host *metal3.BareMetalHost) string {
	return "BareMetalHost " + types.NamespacedName{Namespace: host.Namespace, Name: host.Name}.String()
}

// access says why Ironic will not reach the host's BMC.
func (c Checks) access(ctx context.Context, host *metal3.BareMetalHost) (problems []string) {
	if host.Spec.BMC.Address == "" {
		return nil // an unmanaged host
	}
	access, err := bmc.Parse(host.Spec.BMC.Address, host.Spec.BMC.DisableCertificateVerification)
	if err != nil {
		return []string{fmt.Sprintf("will not be registered: spec.bmc.address: %v", err)}
	}
	scheme := access.Scheme
	if access.IsPlainHTTP() {
		scheme += "+http"
	}
	if err := c.BMCs.Check(ctx, scheme, access.Host()); err != nil {
		problems = append(problems, fmt.Sprintf("will not be registered: spec.bmc.address: %v", err))
	}
	if c.Drivers != nil && !slices.Contains(c.Drivers, access.Driver) {
		problems = append(problems, fmt.Sprintf("will not be registered: Ironic has not enabled the driver %s, which spec.bmc.address needs", access.Driver))
	}
	return problems
}

func (c Checks) isSecretMissing(ctx context.Context, host *metal3.BareMetalHost) (bool, error) {
	if c.HasSecret == nil || host.Spec.BMC.CredentialsName == "" {
		return false, nil
	}
	has, err := c.HasSecret(ctx, host.Namespace, host.Spec.BMC.CredentialsName)
	return !has && err == nil, err
}

// by returns the hosts by what index has of them.
func by(hosts []*metal3.BareMetalHost, index func(*metal3.BareMetalHost) []string) map[string][]*metal3.BareMetalHost {
	found := map[string][]*metal3.BareMetalHost{}
	for _, host := range hosts {
		for _, value := range index(host) {
			found[value] = append(found[value], host)
		}
	}
	return found
}

// pairs returns the hosts that are the same as another one, each with the first such host.
func pairs(hosts []*metal3.BareMetalHost, by map[string][]*metal3.BareMetalHost, lookup func(*metal3.BareMetalHost) []string, same func(a, b *metal3.BareMetalHost) bool) (found [][2]*metal3.BareMetalHost) {
	for _, host := range hosts {
		for _, value := range lookup(host) {
			others := by[value]
			i := slices.IndexFunc(others, func(other *metal3.BareMetalHost) bool { return other != host && same(host, other) })
			if i >= 0 && len(others) <= lifecycle.MaxSharing {
				found = append(found, [2]*metal3.BareMetalHost{host, others[i]})
				break
			}
		}
	}
	return found
}

// first says what will be done to the host's machine, because its spec asks for something else than what its status has.
func first(host *metal3.BareMetalHost) (texts []string) {
	if metal3.IsPaused(host) || host.IsDetached() || host.Spec.BMC.Address == "" {
		return nil
	}
	state := host.Status.Provisioning.State
	runs := state.RunsSomething()
	cleaned := ", and its disks are cleaned"
	if host.Spec.AutomatedCleaningMode == metal3.CleaningModeDisabled {
		cleaned = ", without cleaning"
	}
	switch {
	case !host.DeletionTimestamp.IsZero() && state == metal3.StateProvisioned:
		return []string{"is being deleted: it will be deprovisioned" + cleaned}
	case !host.DeletionTimestamp.IsZero():
		return []string{"is being deleted: that will go on"}
	case state == metal3.StateProvisioned && deploy.MustDeprovision(host):
		text := "will be deprovisioned" + cleaned
		if deploy.WantsImage(&host.Spec) {
			text += ", and then provisioned, because its spec asks for something else than it runs"
		}
		return []string{text}
	case (state == metal3.StateAvailable || state == metal3.StateReady) && deploy.WantsImage(&host.Spec) && host.Spec.Online:
		return []string{"will be provisioned"}
	case !runs && state != metal3.StateAvailable && state != metal3.StateReady:
		if state == metal3.StateNone || state == metal3.StateUnmanaged {
			return []string{"will be registered"}
		}
		return []string{fmt.Sprintf("is %s: that will go on", state)}
	}
	if _, asked := host.Annotations[metal3.InspectAnnotation]; asked && !runs && !host.InspectionDisabled() {
		texts = append(texts, "will be inspected again, as its annotation asks")
	}
	switch {
	case slices.ContainsFunc(slices.Collect(maps.Keys(host.Annotations)), metal3.IsRebootAnnotation):
		texts = append(texts, "will be rebooted, or switched off, as its annotation asks")
	case host.Spec.Online && !host.Status.PoweredOn:
		texts = append(texts, "will be switched on")
	case !host.Spec.Online && host.Status.PoweredOn && state != metal3.StateExternallyProvisioned: // that one is left on
		texts = append(texts, "will be switched off")
	}
	return texts
}
