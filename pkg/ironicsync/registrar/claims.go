package registrar

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/klog/v2"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/hostindex"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live"
)

// Nodes are the nodes in Ironic as they were last observed.
type Nodes interface {
	// Poll observes all nodes.
	Poll(ctx context.Context) error
	// NodesWithBMC returns the observed nodes whose BMC may be the one with the key, and the time as of
	// which these are all. While asOf is zero, that is not known.
	NodesWithBMC(key bmc.Key) (nodes []ironic.Node, asOf time.Time)
}

// Claims decides which host may have a node, and which host may have a BMC.
type Claims struct {
	hosts *hostindex.Index
	nodes Nodes
	// elsewhere tells of the nodes of all other Ironics whose BMC may be the one with the key.
	elsewhere func(key bmc.Key) Elsewhere
}

// Elsewhere is what is known of the nodes of all other Ironics whose BMC may be that of a host. An Ironic that is away does not
// hold up the hosts of another for long; but what it was known to have does not go away with it.
type Elsewhere struct {
	// Nodes are those that were last observed.
	Nodes []ironic.Node
	// Unread is set if not all of those Ironics have been read since this process began to drive them. Awaited is set, too, as
	// long as it can be expected that they will be within moments.
	Unread, Awaited bool
}

// NewClaims returns Claims of the given hosts on the nodes of an Ironic. elsewhere tells of the nodes of all other Ironics whose
// BMC may be the one with the key.
func NewClaims(hosts *hostindex.Index, nodes Nodes, elsewhere func(key bmc.Key) Elsewhere) *Claims {
	return &Claims{hosts, nodes, elsewhere}
}

// without returns the hosts without host.
func without(host *metal3.BareMetalHost, hosts []*metal3.BareMetalHost) []*metal3.BareMetalHost {
	var others []*metal3.BareMetalHost
	for _, other := range hosts {
		if other.Namespace != host.Namespace || other.Name != host.Name {
			others = append(others, other)
		}
	}
	return others
}

// IsNodeOfAnother tells whether another host owns the node: the node bears its name or is
// marked with its UID, or its status has the node, which this host has neither by name nor
// by mark. The marks of hosts that are gone do not count.
func (c *Claims) IsNodeOfAnother(host *metal3.BareMetalHost, node *lifecycle.Node) bool {
	if ironic.IsNameOfAnother(node.Name, host.Namespace, host.Name) {
		return true
	}
	others := without(host, append(c.hosts.WithUID(node.MarkedHost), c.hosts.WithNode(node.UUID)...))
	return slices.ContainsFunc(others, func(other *metal3.BareMetalHost) bool { return lifecycle.HasNodeOf(other, host, node) })
}

// canAdopt tells whether a node that was not created for the host may become its node: no host has it,
// and Ironic talks to the host's BMC for it. (Who knows a MAC address of a machine does not get its node, and that Ironic
// does not say which BMC a node has is no proof that it is this one.)
func (c *Claims) canAdopt(host *metal3.BareMetalHost, node *ironic.Node) bool {
	return !c.IsNodeOfAnother(host, lifecycle.RecordOf(node)) && lifecycle.KeyOfNode(node).Matches(lifecycle.BMCKey(host))
}

// DescribeBMCConflict says which other host, or which node in Ironic that is no host's, has the BMC of
// host, for its user, who may not be allowed to read other namespaces. It is empty if
// nothing has, or if host had it first. Two hosts on one machine would inspect, clean and
// switch it off under each other.
func (c *Claims) DescribeBMCConflict(host *metal3.BareMetalHost) string {
	key := lifecycle.BMCKey(host)
	if key.IsZero() {
		return ""
	}
	const advice = ": correct spec.bmc.address, or delete one of them"
	switch other := c.hostWithBMC(host); {
	case other == nil:
	case other.Namespace == host.Namespace:
		return fmt.Sprintf("Host %q in this namespace has the same BMC%s", other.Name, advice)
	default:
		return "A host in another namespace has the same BMC" + advice
	}
	if lifecycle.NodeOf(&host.Status) != nil && !lifecycle.IsEnrolling(host) {
		return "" // it has its machine
	}
	nodes, _ := c.nodes.NodesWithBMC(key)
	for _, node := range nodes {
		switch {
		case node.UUID == host.Status.Provisioning.ID, node.Name == lifecycle.NodeName(host):
			continue // it is this host's
		case node.ProvisionState == ironic.Enroll, node.ProvisionState == ironic.Verifying:
			continue // whoever has created it need not have the credentials, and nothing is done with it
		case host.Status.Provisioning.ID == "" && (node.Name == "" || node.Name == host.Name):
			continue // which the host takes over, if it may
		}
		return fmt.Sprintf("A node in Ironic that is not this host's has the BMC %s%s", key, advice)
	}
	elsewhere := c.elsewhere(key)
	has := fmt.Sprintf("A node in another Ironic of this server has the BMC %s%s", key, advice)
	had := fmt.Sprintf("A node in another Ironic of this server had the BMC %s. Whether it still has it is not known, because not all Ironics have been read since the server started: have them answer (kubectl get ironicinstances)", key)
	switch told := host.Status.Record.Registration; {
	case elsewhere.hasVerified():
		return has
	case told == nil || told.Message != lifecycle.CutMessage(has) && told.Message != lifecycle.CutMessage(had) || !elsewhere.Unread:
		return ""
	case elsewhere.Awaited:
		return told.Message
	}
	return had
}

// hostWithBMC returns the other host that has the BMC of host, or nil.
func (c *Claims) hostWithBMC(host *metal3.BareMetalHost) *metal3.BareMetalHost {
	for _, other := range c.SharingBMC(host) {
		if other.Namespace != host.Namespace && !isRegistered(other) || hasBetterClaim(host, other) {
			continue // who only writes the address of a BMC keeps it from nobody in another namespace
		}
		return other
	}
	return nil
}

// IsBMCRegistered tells whether another host has the BMC of host, and Ironic has verified it for that one. Only one of two hosts has it,
// so that they cannot give way to each other.
func (c *Claims) IsBMCRegistered(host *metal3.BareMetalHost) bool {
	other := c.hostWithBMC(host)
	return other != nil && isRegistered(other)
}

// hasVerified tells whether another Ironic has verified the BMC for a node of its own. Two Ironics that manage one
// machine would switch it, and write to its disks, under each other.
func (e Elsewhere) hasVerified() bool {
	return slices.ContainsFunc(e.Nodes, func(node ironic.Node) bool {
		return node.ProvisionState != ironic.Enroll && node.ProvisionState != ironic.Verifying
	})
}

// SameMachine finds the other host that is of the same machine by another BMC address. There is none if host has the better claim
// to the machine: something runs on it for host and not for the other one, or host was created first. Two hosts of one namespace for
// which something runs have no claim, either of them: its owner can say what is so. In two namespaces, whoever has a BMC that reports
// the marks of a machine could otherwise have its host held again and again, by one new host after the other. It also finds what the
// machine has in common with another host's that may all the same be another machine. The words are for the user of host, who may not be allowed to read other namespaces.
func (c *Claims) SameMachine(host *metal3.BareMetalHost) (found lifecycle.SameMachine) {
	if !isRegistered(host) {
		return found // nothing is done to its machine yet; why not may be that the other one has its MAC address
	}
	for _, other := range c.hosts.Alike(host) {
		subject, isNear := "A host in another namespace", other.Namespace == host.Namespace
		switch {
		case lifecycle.AreConfirmedApart(host, other.BareMetalHost):
			continue
		case isNear:
			subject = fmt.Sprintf("Host %q in this namespace", other.Name)
		case !isRegistered(other.BareMetalHost) || !wasInspected(other.BareMetalHost) || !wasInspected(host):
			continue // what somebody has written keeps a machine from nobody
		}
		runs, otherRuns := lifecycle.UsesMachine(host), lifecycle.UsesMachine(other.BareMetalHost)
		switch marks := other.Likeness.String(); {
		case marks == "":
		case !other.IsSame():
			if found.Resembles == "" && !lifecycle.BMCKey(host).Matches(lifecycle.BMCKey(other.BareMetalHost)) { // see DescribeBMCConflict
				found.Resembles = fmt.Sprintf("%s has a machine with the same %s. That does not prove that it is the same machine, and nothing waits for this. If it is, delete one of the hosts", subject, marks)
			}
		case found.Host != "", runs && !otherRuns:
		case runs == otherRuns && !(runs && isNear) && hasBetterClaim(host, other.BareMetalHost):
		default:
			found.Host, found.Message = other.UID, fmt.Sprintf("%s is of the same machine, according to %s", subject, marks)
		}
	}
	return found
}

// wasInspected tells whether the hardware of a host is what Ironic has found. It can also be given by annotations and
// objects.
func wasInspected(host *metal3.BareMetalHost) bool {
	return host.Status.Ironic != nil && host.Status.Ironic.InspectionFinishedAt != nil && !host.InspectionDisabled()
}

// OtherNodesWithBMC tells whether Ironic, or another one, has verified the BMC of the host's node for another
// node, too: an operator has created it, or has changed its address to that of the BMC.
func (c *Claims) OtherNodesWithBMC(host *metal3.BareMetalHost, node *lifecycle.Node) lifecycle.OtherNodes {
	nodes, asOf := c.nodes.NodesWithBMC(node.BMC)
	elsewhere := c.elsewhere(node.BMC)
	others := lifecycle.OtherNodes{ExistElsewhere: elsewhere.hasVerified(), AsOf: asOf, MayExistElsewhere: elsewhere.Unread}
	if elsewhere.Awaited {
		others.AsOf = time.Time{}
	}
	for _, other := range nodes {
		switch {
		case other.UUID == node.UUID, other.Name == lifecycle.NodeName(host):
		case other.ProvisionState == ironic.Enroll, other.ProvisionState == ironic.Verifying:
		default:
			others.Exist = true
		}
	}
	return others
}

// HasBMCToItself tells whether no other host or node has the BMC of host, as Ironic says now:
// what was read earlier does not have a node that the server of another cluster has created
// since. Of two servers that verify a BMC at the same moment and then ask for this, at least
// one sees the other's node.
func (c *Claims) HasBMCToItself(ctx context.Context, host *metal3.BareMetalHost) (bool, error) {
	if err := c.observeNodes(ctx); err != nil {
		return false, err
	}
	return c.DescribeBMCConflict(host) == "", nil
}

func (c *Claims) observeNodes(ctx context.Context) error {
	var partial *live.PartialError // some status was not recorded; the nodes were read
	if err := c.nodes.Poll(ctx); err != nil && !errors.As(err, &partial) {
		return fmt.Errorf("finding out which nodes have the host's BMC: %w", err)
	}
	return nil
}

// hasBetterClaim tells whether host has the BMC rather than other: because it alone is
// registered with it, or because it was created first.
func hasBetterClaim(host, other *metal3.BareMetalHost) bool {
	has, otherHas := isRegistered(host), isRegistered(other)
	if has != otherHas {
		return has
	}
	return lifecycle.IsOlder(host, other)
}

// isRegistered tells whether Ironic has verified the credentials of the BMC in the host's
// spec. It goes by what only the server records: the state can come from an annotation.
func isRegistered(host *metal3.BareMetalHost) bool {
	with := host.Status.Record.RegisteredWith
	if with == nil || with.BMC != "" && with.BMC != lifecycle.BMCKey(host).String() {
		return false
	}
	if node := lifecycle.NodeOf(&host.Status); node != nil && !lifecycle.IsDetached(host) && node.Unproven == "" && node.ProvisionState != ironic.Enroll && node.ProvisionState != ironic.Verifying {
		return true
	}
	// Who runs something on a machine keeps its BMC while Ironic has lost the node, or has it again and has not verified it yet,
	// and on the way to another Ironic.
	return (lifecycle.IsDetached(host) || lifecycle.UsesMachine(host)) && host.Status.GoodCredentials.Reference != nil
}

// SharingBMC returns the other hosts whose BMC may be that of host.
func (c *Claims) SharingBMC(host *metal3.BareMetalHost) []*metal3.BareMetalHost {
	return without(host, c.hosts.WithBMC(lifecycle.BMCKey(host)))
}

// describeOwner names the owner of a node to the user of host, who may not be allowed to read other
// namespaces, and knows no nodes but those of hosts. The log names the node to operators.
func (c *Claims) describeOwner(ctx context.Context, host *metal3.BareMetalHost, uuid string) string {
	klog.FromContext(ctx).Info("Another node has the MAC address", "other", uuid)
	owners := c.hosts.WithNode(uuid)
	if len(owners) == 0 {
		return "a node in Ironic that no host has"
	}
	if owner := owners[0]; owner.Namespace == host.Namespace {
		return fmt.Sprintf("host %s/%s", owner.Namespace, owner.Name)
	}
	return "a host in another namespace"
}
