// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
)

// Whose a node is. Everybody asks here: the plans of the leader (contradictionOf), what is shown of a host
// (Observe), and the actions of users on what Ironic says at that moment (WhyUnproven). The status of a host may name
// any node, so it proves nothing.

// WhyUnproven tells the user of a host why nothing may be shown of the node, or done with it, on the host's behalf: it is
// not proven that the node is the host's. It is empty if that is proven. cluster is the UID of this cluster; empty if it
// is not known.
func WhyUnproven(host *metal3.BareMetalHost, node *ironic.Node, cluster string) string {
	if host.Status.Record.IsLater() {
		return host.Status.Record.WhyLeftAlone()
	}
	if c := unproven(host, NodeFromIronic(node), cluster); c != nil {
		return c.message
	}
	return ""
}

// WhyUnconfirmable tells the user of a host why nobody can confirm that the node is the host's; empty if a person can.
func WhyUnconfirmable(host *metal3.BareMetalHost, node *ironic.Node) string {
	if node.IsAnothers(host.Namespace, host.Name) {
		return NodeOfAnotherHost
	}
	return ""
}

// unproven returns why it is not proven that the node is the host's; nil if it is. It does not know of the other hosts
// (see HasNodeOf), and says nothing of the node that a stranger must not learn.
func unproven(host *metal3.BareMetalHost, node *Node, cluster string) *contradiction {
	switch {
	case ironic.IsNameOfAnother(node.Name, host.Namespace, host.Name):
		return nodeOfAnotherHost()
	case node.Unproven != "":
		return contradictionFor(host, node, node.Unproven)
	case isTakenOver(host, node):
		return nil
	case isOfAnotherCluster(host, node, cluster):
		return contradictionFor(host, node, metal3.NodeOfAnotherClusterReason)
	case !matchesBMC(host, node):
		return contradictionFor(host, node, metal3.AnotherBMCReason)
	}
	return nil
}

// isConcealed reports whether nothing of the node is shown. A node that this server has marked as the host's is shown even
// if something contradicts that since, for the user to see what.
func isConcealed(host *metal3.BareMetalHost, node *Node, cluster string) (reason string, is bool) {
	c := unproven(host, node, cluster)
	if c == nil || isMarkedAs(host, node) {
		return "", false
	}
	return c.reason, true
}

// NodeOfAnotherHost tells the user of a host that another one has its node.
const NodeOfAnotherHost = "The node in Ironic belongs to another host. Delete this host, which leaves the machine as it is, and create it with the BMC and the MAC address of a machine of its own"

func nodeOfAnotherHost() *contradiction {
	return &contradiction{reason: metal3.NodeOfAnotherHostReason, blocksAll: true, foreign: true, message: NodeOfAnotherHost}
}

// contradictionFor returns the contradiction with a reason for which a node is unproven.
func contradictionFor(host *metal3.BareMetalHost, node *Node, reason string) *contradiction {
	c := &contradiction{reason: reason, blocksAll: true, foreign: true}
	id := host.Status.Provisioning.ID // which the user knows
	switch {
	case reason == metal3.NodeOfAnotherHostReason:
		return nodeOfAnotherHost()
	case reason == metal3.NodeOfAnotherClusterReason:
		c.message = fmt.Sprintf("Node %s is marked as that of a host in another cluster, whose server uses the same Ironic. If that cluster does not manage the machine any more, confirm the node with the subresource takeover", id)
	case isMarkedAs(host, node) && !node.BMC.IsZero(): // it may be seen
		c.message = fmt.Sprintf("Ironic reaches node %s through the BMC at %q, which is neither spec.bmc.address nor the one that this server has told Ironic. The node may be in use for another machine. Correct driver_info in Ironic or spec.bmc.address, or confirm the node with the subresource takeover", id, node.BMC)
	default:
		c.message = fmt.Sprintf("Ironic reaches node %s through a BMC that is neither spec.bmc.address nor the one that this server has told Ironic, or does not say through which one, and the node was not created for this host. The node may be in use for another machine. Correct spec.bmc.address or driver_info in Ironic, or confirm the node with the subresource takeover", id)
	}
	return c
}

// isMarkedAs reports whether the node is marked as the host's.
func isMarkedAs(host *metal3.BareMetalHost, node *Node) bool {
	return node.MarkedHost != "" && node.MarkedHost == string(host.UID)
}

// isOfAnotherCluster goes by the node's marks. While this cluster is not known, only the mark of the host itself counts.
func isOfAnotherCluster(host *metal3.BareMetalHost, node *Node, cluster string) bool {
	if cluster == "" {
		return node.MarkedCluster != "" && !isMarkedAs(host, node)
	}
	return node.MarkedCluster != "" && node.MarkedCluster != cluster
}

// HasNodeOf reports whether other, and not host, has a node: it is marked as other's; or the status of other has it, and it
// is host's neither by name nor by mark. The older one of two hosts whose statuses have it has it.
func HasNodeOf(other, host *metal3.BareMetalHost, node *Node) bool {
	switch {
	case isMarkedAs(host, node):
		return false
	case isMarkedAs(other, node):
		return true
	case node.Name == NodeName(host):
		return false
	}
	return other.Status.Provisioning.ID == node.UUID && (host.Status.Provisioning.ID != node.UUID || IsOlder(other, host))
}

// MayBeOfAnotherHost reports whether HasNodeOf can be true of any other host, so that they have to be looked at.
func MayBeOfAnotherHost(host *metal3.BareMetalHost, node *Node) bool {
	return !isMarkedAs(host, node) && (node.MarkedHost != "" || node.Name != NodeName(host))
}

// IsOlder reports whether a has the better claim to something that both hosts want, because it was
// created first.
func IsOlder(a, b *metal3.BareMetalHost) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.UID < b.UID
}

// ToldKeyOfNode returns the key of the BMC that Ironic was told for the node, whether its driver reads that or not: whoever asks who
// else may use a BMC had better ask one time too often.
func ToldKeyOfNode(node *ironic.Node) bmc.Key {
	a := node.Address
	return bmc.RegisteredKey(string(a.RedfishAddress), string(a.RedfishSystem), string(a.IPMIAddress), string(a.IPMIPort))
}

// KeyOfNode returns the key of the BMC that Ironic talks to for the node; a zero one if it
// was told none, or does not say. Drivers read their own fields of driver_info only, whatever else is in there: ilo, for example,
// reads ilo_address.
func KeyOfNode(node *ironic.Node) bmc.Key {
	a := node.Address
	switch node.Driver {
	case "ipmi", "intel-ipmi":
		a.RedfishAddress, a.RedfishSystem = "", ""
	case "redfish", "idrac":
		a.IPMIAddress, a.IPMIPort = "", ""
	case "", "fake-hardware": // it was not asked for, or talks to none
	default:
		return bmc.Key{}
	}
	return bmc.RegisteredKey(string(a.RedfishAddress), string(a.RedfishSystem), string(a.IPMIAddress), string(a.IPMIPort))
}

// BMCKey returns the key of the BMC of a host; a zero one if its address cannot be read.
func BMCKey(host *metal3.BareMetalHost) bmc.Key {
	access, err := bmc.Parse(host.Spec.BMC.Address, false)
	if err != nil {
		return bmc.Key{}
	}
	return access.Key()
}

// matchesBMC reports whether Ironic talks to the host's BMC for the node, or to the one that
// the host had before its spec was changed. Where Ironic does not say which BMC it talks to (other drivers have other
// fields, and its policy may conceal driver_info), or the spec names none that can be compared, only a node with this
// host's mark is taken to have it.
func matchesBMC(host *metal3.BareMetalHost, node *Node) bool {
	told, wanted := node.BMC, BMCKey(host)
	if told.Matches(wanted) {
		return true
	}
	if told.IsZero() {
		return isMarkedAs(host, node)
	}
	if with := host.Status.Record.RegisteredWith; with != nil && with.BMC != "" {
		return told.Matches(bmc.ParseKey(with.BMC))
	}
	// It was made for this host, and the spec was changed before it was registered.
	r := host.Status.Record.Registration
	return isMarkedAs(host, node) && (wanted.IsZero() || r == nil || r.Generation != host.Generation)
}

// HasOwnNode reports whether the host's node is the host's own, so that its BMC may be asked: this
// server has registered it, which no status that somebody restores can say, and has found nothing
// since that contradicts it.
func HasOwnNode(host *metal3.BareMetalHost) bool {
	if node := host.Status.Ironic; node != nil && node.Unproven != "" {
		return false
	}
	return host.Status.Provisioning.ID != "" && host.Status.Record.RegisteredWith != nil && host.ForeignNode() == ""
}

// MayGetOwnNode reports whether the host's node may turn out to be the host's own: this server has not registered it yet, as after a
// migration, or another host has the BMC for now. What has to be undone at its BMC waits for that, unless the host goes.
func MayGetOwnNode(host *metal3.BareMetalHost) bool {
	if host.Status.Provisioning.ID == "" || host.IsDetached() || !host.DeletionTimestamp.IsZero() {
		return false
	}
	if node := host.Status.Ironic; node != nil && node.Unproven != "" {
		return false
	}
	if host.ForeignNode() != "" {
		return host.Status.Record.Hold.Reason == metal3.BMCInUseReason
	}
	return host.Status.Record.RegisteredWith == nil
}
