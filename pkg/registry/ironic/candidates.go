// SPDX-License-Identifier: Apache-2.0

package ironic

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"

	api "github.com/metal3-io/metal3-apiserver/pkg/apis/ironic/v1alpha1"
	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/kind"
)

// Hosts lists the recorded hosts of all namespaces.
type Hosts interface {
	List(ctx context.Context, options metav1.ListOptions) (*metal3.BareMetalHostList, error)
}

// candidates is the storage of the nodes that no host has.
type candidates struct {
	ironics  func() []NamedNodes
	listings *listings
	hosts    Hosts
}

var (
	_ rest.Lister               = &candidates{}
	_ rest.Getter               = &candidates{}
	_ rest.Scoper               = &candidates{}
	_ rest.SingularNameProvider = &candidates{}
)

func (*candidates) New() runtime.Object     { return &api.Candidate{} }
func (*candidates) NewList() runtime.Object { return &api.CandidateList{} }
func (*candidates) Destroy()                {}
func (*candidates) NamespaceScoped() bool   { return false }
func (*candidates) GetSingularName() string { return "candidate" }

// List returns the candidates of all Ironics, sorted by name. An Ironic that cannot be asked is a warning, as long as there is
// another one. There are no pages: Ironic is asked for all of its nodes in any case.
func (c *candidates) List(ctx context.Context, options *metainternalversion.ListOptions) (runtime.Object, error) {
	all, away, err := c.read(ctx, c.list)
	if err != nil {
		return nil, err
	}
	for _, a := range away {
		warning.AddWarning(ctx, "", fmt.Sprintf("candidates are missing: %v", a))
	}
	byLabels, byFields := labels.Everything(), fields.Everything()
	if options != nil && options.LabelSelector != nil {
		byLabels = options.LabelSelector
	}
	if options != nil && options.FieldSelector != nil {
		byFields = options.FieldSelector
	}
	list := &api.CandidateList{Items: []api.Candidate{}}
	for _, candidate := range all {
		if byLabels.Matches(labels.Set{}) && byFields.Matches(fields.Set{"metadata.name": candidate.Name}) {
			list.Items = append(list.Items, candidate)
		}
	}
	return list, nil
}

// Get returns a candidate. A node that a host has is not found. If several Ironics have a node with the UUID, it is the one
// that comes first in a list. As long as an Ironic cannot be asked, it is not known whether it has the node.
func (c *candidates) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	all, away, err := c.read(ctx, func(ctx context.Context, in NamedNodes) (answer, error) { return getOne(ctx, in, name) })
	if err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].Name == name {
			return &all[i], nil
		}
	}
	if len(away) > 0 {
		return nil, unavailable(away)
	}
	return nil, apierrors.NewNotFound(api.Resource("candidates"), name)
}

// list returns what the Ironic has, as it was at a moment after the call.
func (c *candidates) list(ctx context.Context, in NamedNodes) (answer, error) {
	next := c.listings.JoinOne(in)
	defer c.listings.LeaveOne(in, next)
	select {
	case <-next.Done():
		return next.Result()
	case <-ctx.Done():
		return answer{}, ironic.NewUnavailableError("list nodes", ctx.Err(), readTimeout)
	}
}

// read asks all Ironics with ask, and returns the candidates together with why some of the Ironics could not be asked. If that is so
// for all of them, it is an error. The hosts are read after the nodes, so that a node that a new host has just made is not
// taken for one without a host.
func (c *candidates) read(ctx context.Context, ask func(context.Context, NamedNodes) (answer, error)) ([]api.Candidate, []awayError, error) {
	answers, away := askAll(ctx, c.ironics(), ask)
	if len(away) > 0 && len(answers) == 0 {
		return nil, nil, unavailable(away)
	}
	hosts, err := c.hosts.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, err
	}
	owned := ownedBy(hosts.Items)
	var all []api.Candidate
	for _, a := range answers {
		all = append(all, candidatesOf(a, owned)...)
	}
	slices.SortFunc(all, func(a, b api.Candidate) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Status.Ironic, b.Status.Ironic))
	})
	return all, away, nil
}

// node identifies a node: a UUID is unique in its Ironic only.
type node struct{ ironic, uuid string }

// owned are the nodes that hosts have.
type owned struct {
	nodes map[node]bool
	names map[string]bool // of nodes
}

// ownedBy returns the nodes of the hosts. A host has the node that is recorded in its status, in the Ironic that is recorded
// with it: another Ironic may have the same UUID for another machine, after its database was restored from a backup of the
// first. It also has each node with its name, in whichever Ironic. Outside of its own, such a node was left there when the
// host was registered elsewhere, and no other host could adopt it, because only a host of that name can.
func ownedBy(hosts []metal3.BareMetalHost) owned {
	o := owned{map[node]bool{}, map[string]bool{}}
	for i := range hosts {
		host := &hosts[i]
		in := host.Status.Record.Ironic
		o.nodes[node{in, host.Status.Provisioning.ID}] = true
		if host.Status.Ironic != nil {
			o.nodes[node{in, host.Status.Ironic.NodeUUID}] = true
		}
		o.names[ironic.NodeName(host.Namespace, host.Name)] = true
	}
	return o
}

// candidatesOf returns the nodes of an Ironic that no host has.
func candidatesOf(a answer, owned owned) []api.Candidate {
	macs := map[string][]string{}
	for _, port := range a.ports {
		macs[port.NodeUUID] = append(macs[port.NodeUUID], port.Address)
	}
	var all []api.Candidate
	for _, n := range a.nodes {
		if n.UUID != "" && !owned.nodes[node{a.name, n.UUID}] && !owned.names[n.Name] {
			candidate := candidateOf(n, macs[n.UUID])
			candidate.Status.Ironic = a.name
			all = append(all, candidate)
		}
	}
	return all
}

func candidateOf(node ironic.Node, macs []string) api.Candidate {
	node.MaskPasswords()
	slices.Sort(macs)
	a := node.Address
	return api.Candidate{
		ObjectMeta: metav1.ObjectMeta{Name: node.UUID},
		Status: api.CandidateStatus{
			NodeName:          node.Name,
			ProvisionState:    string(node.ProvisionState),
			PowerState:        string(node.PowerState),
			Driver:            node.Driver,
			BMCAddress:        bmc.AddressOf(node.Driver, string(a.RedfishAddress), string(a.RedfishSystem), string(a.IPMIAddress), string(a.IPMIPort)),
			MACAddresses:      macs,
			InstanceUUID:      node.InstanceUUID,
			MarkedHost:        string(node.Marks.Host),
			MarkedCluster:     string(node.Marks.Cluster),
			Maintenance:       node.Maintenance,
			MaintenanceReason: node.MaintenanceReason,
		},
	}
}

// columns are those of `kubectl get candidates`. Columns with priority 1 appear with -o wide.
var columns = []metav1.TableColumnDefinition{
	{Name: "Name", Type: "string", Format: "name", Description: "UUID of the node."},
	{Name: "Node", Type: "string", Description: "Name of the node in Ironic."},
	{Name: "State", Type: "string", Description: "Provision state of the node."},
	{Name: "Power", Type: "string", Description: "Power state of the node."},
	{Name: "BMC", Type: "string", Description: "Address of the BMC."},
	{Name: "Driver", Type: "string", Priority: 1, Description: "Ironic's driver."},
	{Name: "MAC", Type: "string", Priority: 1, Description: "MAC addresses of the node's ports."},
	{Name: "Ironic", Type: "string", Priority: 1, Description: "Name of the IronicInstance in whose Ironic the node is. Empty for the Ironic of the server's flags."},
	{Name: "Marked Host", Type: "string", Priority: 1, Description: "UID of the host that the node is marked with."},
	{Name: "Marked Cluster", Type: "string", Priority: 1, Description: "UID of the cluster that the node is marked with."},
}

// ConvertToTable returns the candidates as kubectl prints them.
func (*candidates) ConvertToTable(_ context.Context, object, options runtime.Object) (*metav1.Table, error) {
	return kind.Table(object, options, columns, func(object runtime.Object) ([]any, error) {
		c, ok := object.(*api.Candidate)
		if !ok {
			return nil, fmt.Errorf("not a Candidate: %T", object)
		}
		s := c.Status
		return []any{c.Name, s.NodeName, s.ProvisionState, s.PowerState, s.BMCAddress, s.Driver, strings.Join(s.MACAddresses, ","), s.Ironic, s.MarkedHost, s.MarkedCluster}, nil
	})
}
