// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
)

// Whose a BMC is, and the machine behind it. Two hosts on one machine would inspect, clean and switch it off under each other, and so
// would two nodes. ClaimOf is the only answer; what it is asked with says how old it is.

// Rivals is what is known of others that may have the BMC of a host, or its machine.
type Rivals struct {
	// SameBMC are the other hosts whose BMC may be that of the host's spec.
	SameBMC []*metal3.BareMetalHost
	// Alike are the other hosts whose machines have something in common with the host's, in the order of their names.
	Alike []Alike
	// OfSpec is about the nodes whose BMC may be that of the host's spec, and OfNode about those whose BMC may be that of its node. Nodes
	// of the host itself are among them.
	OfSpec, OfNode NodesWithBMC
}

// Alike is another host, and what its machine has in common with that of a host.
type Alike struct {
	*metal3.BareMetalHost
	Likeness
}

// NodesWithBMC is what is known of the nodes that may have a certain BMC.
type NodesWithBMC struct {
	// Nodes are those of the host's own Ironic, as they were last observed.
	Nodes []ironic.Node
	// AsOf is when they were all, by the same clock as Situation.ObservedAt; zero while that is not known.
	AsOf time.Time
	// Elsewhere is about those of all other Ironics of this server.
	Elsewhere Elsewhere
}

// Elsewhere is what is known of the nodes of all other Ironics that may have a certain BMC. An Ironic that is away does not
// hold up the hosts of another for long; but what it was known to have does not go away with it.
type Elsewhere struct {
	// Nodes are those that were last observed.
	Nodes []ironic.Node
	// Unread is set if not all of those Ironics have been read since this process began to drive them. Awaited is set, too, as
	// long as it can be expected that they will be within moments.
	Unread, Awaited bool
}

// Claim says whether a host's BMC, and its machine, are its own.
type Claim struct {
	// SameBMC tells the user which other host or node has the same BMC; empty if none has, or
	// if this host had it first. SameBMCElsewhere is set if that is a node in another Ironic, which is, or may still be, there.
	SameBMC          string
	SameBMCElsewhere bool
	// BMCRegistered is set if it is another host, for which Ironic has verified the BMC. Only one of two hosts has it, so that they cannot
	// give way to each other.
	BMCRegistered bool
	// OtherNodes are other nodes with the BMC of the host's node.
	OtherNodes OtherNodes
	// SameMachine is what other hosts have in common with the machine.
	SameMachine SameMachine
}

// OtherNodes is what is known of other nodes for which Ironic, or another Ironic of this server, reaches a BMC: an operator has
// created one, or has changed its address to that of the BMC.
type OtherNodes struct {
	// Exist is set if there are any in the host's own Ironic, and ExistElsewhere if there are any in another one.
	Exist, ExistElsewhere bool
	// AsOf is when all nodes were known, by the same clock as Situation.ObservedAt; it is zero while they are not known.
	AsOf time.Time
	// MayExistElsewhere is set if another Ironic has not been read since this process drives it. That ends no hold for a node
	// elsewhere, and begins none.
	MayExistElsewhere bool
}

// SameMachine is what other hosts have in common with the machine of a host.
type SameMachine struct {
	// Host is that of the same machine, by another BMC address, which has a claim to it that is as good or better; Message says that
	// to the user. Both are empty if there is none.
	Host    types.UID
	Message string
	// Resembles reports what the machine of a host has in common with that of another one, if that does not prove that they are one; empty if nothing.
	Resembles string
}

// ClaimOf answers whether the BMC of a host, and its machine, are its own. The words are for the user of the host, who may not be allowed
// to read other namespaces.
func ClaimOf(host *metal3.BareMetalHost, rivals Rivals) Claim {
	rival := rivalOf(host, rivals.SameBMC)
	claim := Claim{BMCRegistered: rival != nil && (hasVerifiedBMC(rival) || keepsBMCFrom(rival, host)), SameMachine: sameMachineAs(host, rivals.Alike)}
	claim.SameBMC, claim.SameBMCElsewhere = describeSameBMC(host, rival, rivals.OfSpec)
	if node := NodeOf(&host.Status); node != nil {
		claim.OtherNodes = otherNodes(host, node, rivals.OfNode)
	}
	return claim
}

// rivalOf returns the other host that has the BMC of host, or nil.
func rivalOf(host *metal3.BareMetalHost, sharing []*metal3.BareMetalHost) *metal3.BareMetalHost {
	for _, other := range sharing {
		if keepsBMCFrom(other, host) {
			return other
		}
		if !BMCKey(other).Matches(BMCKey(host)) || other.Namespace != host.Namespace && !hasVerifiedBMC(other) || hasBetterClaim(host, other) {
			continue // who only writes the address of a BMC keeps it from nobody in another namespace
		}
		return other
	}
	return nil
}

// describeSameBMC says which other host, or which node in Ironic that is no host's, has the BMC of host. It is empty if
// nothing has, or if host had it first. elsewhere is set if it is a node in another Ironic.
func describeSameBMC(host, rival *metal3.BareMetalHost, known NodesWithBMC) (message string, elsewhere bool) {
	key := BMCKey(host)
	if key.IsZero() {
		return "", false
	}
	const advice = ": correct spec.bmc.address, or delete one of them; detach a host before that, or what it runs is erased"
	switch {
	case rival == nil:
	case rival.Namespace == host.Namespace:
		return fmt.Sprintf("Host %q in this namespace has the same BMC%s", rival.Name, advice), false
	default:
		return "A host in another namespace has the same BMC" + advice, false
	}
	if NodeOf(&host.Status) != nil && !IsEnrolling(host) {
		return "", false // it has its machine
	}
	for _, node := range known.Nodes {
		switch {
		case node.UUID == host.Status.Provisioning.ID, node.Name == NodeName(host):
			continue // it is this host's
		case !hasVerified(node):
			continue // whoever has created it need not have the credentials, and nothing is done with it
		case host.Status.Provisioning.ID == "" && (node.Name == "" || node.Name == host.Name):
			continue // which the host takes over, if it may
		}
		return fmt.Sprintf("A node in Ironic that is not this host's has the BMC %s%s", key, advice), false
	}
	switch told := host.Status.Record.Registration; {
	case slices.ContainsFunc(known.Elsewhere.Nodes, hasVerified):
		return fmt.Sprintf("A node in another Ironic of this server has the BMC %s%s", key, advice), true
	case told == nil || !told.Elsewhere || !known.Elsewhere.Unread:
		return "", false
	case known.Elsewhere.Awaited:
		return told.Message, true
	}
	return fmt.Sprintf("A node in another Ironic of this server had the BMC %s. Whether it still has it is not known, because not all Ironics have been read since the server started: have them answer (kubectl get ironicinstances)", key), true
}

// hasVerified reports whether Ironic has verified the BMC for a node. Before, nothing is done with it.
func hasVerified(node ironic.Node) bool {
	return node.ProvisionState != ironic.Enroll && node.ProvisionState != ironic.Verifying
}

// otherNodes reports whether the BMC of the host's node was verified for another node, too.
func otherNodes(host *metal3.BareMetalHost, node *Node, known NodesWithBMC) OtherNodes {
	others := OtherNodes{ExistElsewhere: slices.ContainsFunc(known.Elsewhere.Nodes, hasVerified), AsOf: known.AsOf, MayExistElsewhere: known.Elsewhere.Unread}
	if known.Elsewhere.Awaited {
		others.AsOf = time.Time{}
	}
	others.Exist = slices.ContainsFunc(known.Nodes, func(other ironic.Node) bool {
		return other.UUID != node.UUID && other.Name != NodeName(host) && hasVerified(other)
	})
	return others
}

// sameMachineAs finds the other host that is of the same machine by another BMC address. There is none if host has the better claim
// to the machine: something runs on it for host and not for the other one, or host was created first. If something runs for both
// and they are in one namespace, neither has a claim: their owner can say which is right. In two namespaces, whoever
// has a BMC that reports the marks of a machine could otherwise have its host held again and again, by one new host after the other. It also finds what the
// machine has in common with another host's that may all the same be another machine.
func sameMachineAs(host *metal3.BareMetalHost, alike []Alike) (found SameMachine) {
	if !hasVerifiedBMC(host) {
		return found // nothing is done to its machine yet; why not may be that the other one has its MAC address
	}
	for _, other := range alike {
		subject, isNear := "A host in another namespace", other.Namespace == host.Namespace
		switch {
		case AreConfirmedApart(host, other.BareMetalHost):
			continue
		case isNear:
			subject = fmt.Sprintf("Host %q in this namespace", other.Name)
		case !hasVerifiedBMC(other.BareMetalHost) && KeptBMC(other.BareMetalHost).IsZero() || !WasInspected(other.BareMetalHost) || !WasInspected(host):
			continue // what somebody has written keeps a machine from nobody
		}
		runs, otherRuns := usesMachine(host), usesMachine(other.BareMetalHost)
		switch marks := other.Likeness.String(); {
		case marks == "":
		case !other.IsSame():
			if found.Resembles == "" && !BMCKey(host).Matches(BMCKey(other.BareMetalHost)) { // see describeSameBMC
				found.Resembles = fmt.Sprintf("%s has a machine with the same %s. That does not prove that it is the same machine, and nothing waits for this. If it is, detach one of the hosts, and delete it then", subject, marks)
			}
		case found.Host != "", runs && !otherRuns:
		case runs == otherRuns && !(runs && isNear) && hasBetterClaim(host, other.BareMetalHost):
		default:
			found.Host, found.Message = other.UID, fmt.Sprintf("%s is of the same machine, according to %s", subject, marks)
		}
	}
	return found
}

// WasInspected reports whether the hardware of a host is what Ironic has found. It can also be given by annotations and
// objects.
func WasInspected(host *metal3.BareMetalHost) bool {
	return host.Status.HardwareDetails != nil && host.Status.Record.Inspected
}

// hasBetterClaim reports whether host has the BMC rather than other: because it alone is
// registered with it, because its machine alone runs something, or because it was created first. That something runs for a host that
// was brought along (clusterctl move) is what its status says, which gives it nothing against hosts in other namespaces.
func hasBetterClaim(host, other *metal3.BareMetalHost) bool {
	has, otherHas := hasVerifiedBMC(host), hasVerifiedBMC(other)
	if host.Namespace == other.Namespace {
		runs, otherRuns := saysItRuns(host), saysItRuns(other)
		// Nothing was done yet for one that is enrolling, although its BMC may be verified.
		if runs != otherRuns && (has == otherHas || runs && IsEnrolling(other) || otherRuns && IsEnrolling(host)) {
			return runs
		}
	}
	if has != otherHas {
		return has
	}
	return IsOlder(host, other)
}

// saysItRuns reports whether the machine at a host's BMC runs something, or did where the host comes from, according to the status that it has
// brought along. One that cannot be read may say so.
func saysItRuns(host *metal3.BareMetalHost) bool {
	if !hasStatusToRestore(host) {
		return usesMachine(host) && KeptBMC(host).IsZero() // else it runs on the machine of another BMC
	}
	brought, err := metal3.ParseStatusAnnotation(host.Annotations[metal3.StatusAnnotation])
	return err != nil || usesMachine(&metal3.BareMetalHost{Status: *brought})
}

// hasVerifiedBMC reports whether Ironic has verified the credentials of the BMC in the host's
// spec. It goes by what only the server records: the state can come from an annotation.
func hasVerifiedBMC(host *metal3.BareMetalHost) bool {
	with := host.Status.Record.RegisteredWith
	if with == nil || with.BMC != "" && with.BMC != BMCKey(host).String() {
		return false
	}
	if node := NodeOf(&host.Status); node != nil && !host.IsDetached() && node.Unproven == "" && node.ProvisionState != ironic.Enroll && node.ProvisionState != ironic.Verifying {
		return true
	}
	return keepsMachine(host)
}

// keepsMachine reports whether a host has its machine without a node: one that runs something keeps its BMC while Ironic has lost the
// node, or has it again and has not verified it yet, and on the way to another Ironic.
func keepsMachine(host *metal3.BareMetalHost) bool {
	return (host.IsDetached() || usesMachine(host)) && host.Status.GoodCredentials.Reference != nil
}

// KeptBMC returns the key of the BMC of the host's machine if the spec has another one by now, which was not verified yet: it may
// be that of another machine, or a slip. It is zero if the spec has the same.
func KeptBMC(host *metal3.BareMetalHost) bmc.Key {
	with := host.Status.Record.RegisteredWith
	if with == nil || with.BMC == "" || !keepsMachine(host) {
		return bmc.Key{}
	}
	if key := bmc.ParseKey(with.BMC); !key.Matches(BMCKey(host)) {
		return key
	}
	return bmc.Key{}
}

// keepsBMCFrom reports whether the BMC of host is the KeptBMC of other, as long as Ironic has not verified it for host. Two hosts that run
// something and are given each other's addresses, which had been mixed up, do not wait for each other.
func keepsBMCFrom(other, host *metal3.BareMetalHost) bool {
	return KeptBMC(other).Matches(BMCKey(host)) && !hasVerifiedBMC(host) && !KeptBMC(host).Matches(BMCKey(other))
}
