// Package ironic serves what Ironic has beside the hosts: read-only, and read from Ironic at each
// request. Nothing of it is stored.
package ironic

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	api "github.com/metal3-io/metal3-apiserver/pkg/apis/ironic/v1alpha1"
	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/kind"
)

// Nodes lists what Ironic has.
type Nodes interface {
	// ListNodes returns all nodes.
	ListNodes(ctx context.Context) ([]ironic.Node, error)
	// ListPorts returns the ports that match.
	ListPorts(ctx context.Context, filter ironic.PortFilter) ([]ironic.Port, error)
}

// Hosts lists the recorded hosts of all namespaces.
type Hosts interface {
	List(ctx context.Context, options metav1.ListOptions) (*metal3.BareMetalHostList, error)
}

// readTimeout is how long Ironic may take to list its nodes and ports.
const readTimeout = 15 * time.Second

// candidates is the storage of the nodes that no host has.
type candidates struct {
	nodes Nodes
	hosts Hosts
}

var (
	_ rest.Lister               = &candidates{}
	_ rest.Getter               = &candidates{}
	_ rest.Scoper               = &candidates{}
	_ rest.SingularNameProvider = &candidates{}
)

// Storage returns the storage of each resource of v1alpha1.
func Storage(nodes Nodes, hosts Hosts) map[string]rest.Storage {
	return map[string]rest.Storage{"candidates": &candidates{nodes, hosts}}
}

func (*candidates) New() runtime.Object     { return &api.Candidate{} }
func (*candidates) NewList() runtime.Object { return &api.CandidateList{} }
func (*candidates) Destroy()                {}
func (*candidates) NamespaceScoped() bool   { return false }
func (*candidates) GetSingularName() string { return "candidate" }

// List returns the candidates, sorted by name. There are no pages: Ironic is asked for all of its
// nodes in any case.
func (c *candidates) List(ctx context.Context, options *metainternalversion.ListOptions) (runtime.Object, error) {
	all, err := c.read(ctx)
	if err != nil {
		return nil, err
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

// Get returns a candidate. A node that a host has is not found.
func (c *candidates) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	all, err := c.read(ctx)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].Name == name {
			return &all[i], nil
		}
	}
	return nil, apierrors.NewNotFound(api.Resource("candidates"), name)
}

// read asks Ironic. The hosts are read after the nodes, so that a node that a new host has just
// made is not taken for one without a host.
func (c *candidates) read(ctx context.Context) ([]api.Candidate, error) {
	asked, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	nodes, err := c.nodes.ListNodes(asked)
	if err != nil {
		return nil, unavailable(err)
	}
	ports, err := c.nodes.ListPorts(asked, ironic.PortFilter{})
	if err != nil {
		return nil, unavailable(err)
	}
	hosts, err := c.hosts.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return candidatesOf(nodes, ports, hosts.Items), nil
}

func unavailable(err error) error {
	return apierrors.NewServiceUnavailable(fmt.Sprintf("Ironic cannot be asked: %s", ironic.ReasonOf(err)))
}

// candidatesOf returns the nodes that no host has, sorted by UUID. A host has the node that is
// recorded in its status, and the node with its name.
func candidatesOf(nodes []ironic.Node, ports []ironic.Port, hosts []metal3.BareMetalHost) []api.Candidate {
	owned := map[string]bool{}
	for i := range hosts {
		host := &hosts[i]
		owned[host.Status.Provisioning.ID] = true
		owned[ironic.NodeName(host.Namespace, host.Name)] = true
		if host.Status.Ironic != nil {
			owned[host.Status.Ironic.NodeUUID] = true
		}
	}
	macs := map[string][]string{}
	for _, port := range ports {
		macs[port.NodeUUID] = append(macs[port.NodeUUID], port.Address)
	}
	var all []api.Candidate
	for _, node := range nodes {
		if node.UUID != "" && !owned[node.UUID] && (node.Name == "" || !owned[node.Name]) {
			all = append(all, candidateOf(node, macs[node.UUID]))
		}
	}
	slices.SortFunc(all, func(a, b api.Candidate) int { return strings.Compare(a.Name, b.Name) })
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
		return []any{c.Name, s.NodeName, s.ProvisionState, s.PowerState, s.BMCAddress, s.Driver, strings.Join(s.MACAddresses, ","), s.MarkedHost, s.MarkedCluster}, nil
	})
}
