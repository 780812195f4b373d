// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"

	ironic "github.com/metal3-io/metal3-apiserver/pkg/apis/ironic/v1alpha1"
	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"

	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/inventory"
	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/view"
)

var candidateResource = ironic.SchemeGroupVersion.WithResource("candidates")

// listCandidates returns the nodes in Ironic that no host has.
func (c *clients) listCandidates(ctx context.Context) ([]ironic.Candidate, error) {
	list, err := c.listIronicObjects(ctx, candidateResource)
	if err != nil {
		return nil, err
	}
	return itemsOf[ironic.Candidate](list)
}

func newCandidatesCommand(s *session) *cobra.Command {
	print := newPrintFlags()
	cmd := &cobra.Command{
		Use:     "candidates",
		GroupID: groupEnrol,
		Short:   "List the nodes in Ironic that no host has",
		Long: `Lists the nodes in Ironic that no host has (candidates.ironic.metal3-apiserver.io). It needs the cluster role
metal3-candidates-reader.`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return s.candidates(cmd.Context(), print) },
	}
	print.AddFlags(cmd)
	return cmd
}

func (s *session) candidates(ctx context.Context, print *genericclioptions.PrintFlags) error {
	candidates, isPrinted, err := listOrPrint[ironic.Candidate](ctx, s, candidateResource, print)
	if err != nil || isPrinted {
		return err
	}
	if len(candidates) == 0 {
		fmt.Fprintln(s.ErrOut, "Each node in Ironic has a host.")
		return nil
	}
	w := printers.GetNewTabWriter(s.Out)
	fmt.Fprintln(w, "UUID\tNODE\tSTATE\tPOWER\tBMC\tMAC\tIRONIC\tNOTE")
	for _, candidate := range candidates {
		st := candidate.Status
		row := []string{candidate.Name, st.NodeName, st.ProvisionState, strings.TrimPrefix(st.PowerState, "power "), st.BMCAddress, strings.Join(st.MACAddresses, ","), st.Ironic, note(st)}
		for i := range row {
			row[i] = view.Clean(row[i])
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	return w.Flush()
}

// note says what somebody should know before adopting a node.
func note(status ironic.CandidateStatus) string {
	switch {
	case status.MarkedCluster != "":
		return "marked by cluster " + status.MarkedCluster
	case status.MarkedHost != "":
		return "marked as that of host " + status.MarkedHost
	case status.Maintenance:
		return "in maintenance: " + status.MaintenanceReason
	case status.BMCAddress == "":
		return "its driver " + status.Driver + " has no address that a host can have"
	}
	return ""
}

type adoptCommand struct {
	createCommand
	name, address, mac string
	yes                bool
}

func newAdoptCommand(s *session) *cobra.Command {
	c := &adoptCommand{createCommand: createCommand{session: s, print: newPrintFlags(), isNew: true}}
	cmd := &cobra.Command{
		Use:     "adopt NODE",
		GroupID: groupEnrol,
		Short:   "Make a host for a node in Ironic, as it runs",
		Long: `Makes a host for a node in Ironic that no host has, and a Secret with the user name and the password of
its BMC, which Ironic does not tell. NODE is the UUID or the name of the node.

The host of an active node is externally provisioned: the machine goes on running as it is, and its disks are
never written to. The server takes the node over by its BMC.`,
		Example: `  kubectl bmh candidates
  kubectl bmh adopt rack7-u12 --username admin
  kubectl bmh adopt 608a6734-8d8e-44f0-b372-beb62b274cd0 --name worker-7 --username admin --password-file pw --dry-run=client -o yaml`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: s.completeCandidates,
		RunE:              func(cmd *cobra.Command, args []string) error { return c.adopt(cmd.Context(), args[0]) },
	}
	c.print.AddFlags(cmd)
	cmd.Flags().StringVar(&c.name, "name", "", "Name of the host (default: the name of the node)")
	cmd.Flags().StringVar(&c.address, "address", "", "Address of the BMC, if it is to differ from the one that Ironic has in its scheme, for example redfish-virtualmedia://...")
	cmd.Flags().StringVar(&c.mac, "boot-mac", "", "MAC address that the host boots from (default: that of the node's only port)")
	cmd.Flags().StringVar(&c.username, "username", "", "User name at the BMC")
	cmd.Flags().StringVar(&c.password, "password-file", "", "File with the password of the BMC; - is stdin")
	cmd.Flags().StringVar(&c.dryRun, "dry-run", dryRunNone, "none, client (only print), or server (the server checks everything and stores nothing)")
	cmd.Flags().BoolVarP(&c.yes, "yes", "y", false, "Do not ask for confirmation, also if another cluster has marked the node")
	completeFlag(cmd, "dry-run", completeWords(dryRunNone, dryRunClient, dryRunServer))
	return cmd
}

func (s *session) completeCandidates(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return s.complete(cmd.Context(), func(ctx context.Context, c *clients, _ string) (words []cobra.Completion, err error) {
		candidates, err := c.listCandidates(ctx)
		for _, candidate := range candidates {
			if name := cmp.Or(candidate.Status.NodeName, candidate.Name); strings.HasPrefix(name, prefix) {
				words = append(words, cobra.CompletionWithDesc(view.Clean(name), view.Clean(candidate.Status.ProvisionState)))
			}
		}
		return words, err
	}), cobra.ShellCompDirectiveNoFileComp
}

func (c *adoptCommand) adopt(ctx context.Context, node string) error {
	if err := checkOneOf("--dry-run", c.dryRun, dryRunNone, dryRunClient, dryRunServer); err != nil {
		return err
	}
	clients, namespace, err := c.connect()
	if err != nil {
		return err
	}
	candidates, err := clients.listCandidates(ctx)
	if err != nil {
		return err
	}
	candidate, err := findCandidate(candidates, node)
	if err != nil {
		return err
	}
	entry, err := c.entryFor(candidate, namespace)
	if err != nil {
		return err
	}
	if what := candidate.Status; (what.MarkedCluster != "" || what.MarkedHost != "") && !c.yes && c.dryRun == dryRunNone {
		if err := c.ask(ctx, fmt.Sprintf("The node is %s. If that host exists, both would act on the machine.", note(what))); err != nil {
			return err
		}
	}
	common, err := c.credentials(ctx, []inventory.Entry{entry})
	if err != nil {
		return err
	}
	objects, mistakes := inventory.Prepare([]inventory.Entry{entry}, common, namespace, passwordFilesIn(""))
	for _, mistake := range mistakes {
		return mistake
	}
	made, err := c.apply(ctx, objects)
	if err == nil && made == 0 {
		err = errReported
	}
	return err
}

// findCandidate finds a node by its UUID or its name.
func findCandidate(candidates []ironic.Candidate, node string) (*ironic.Candidate, error) {
	var found *ironic.Candidate
	for i := range candidates {
		if candidates[i].Name == node || candidates[i].Status.NodeName == node {
			if found != nil && found.Name == candidates[i].Name {
				return nil, fmt.Errorf("several Ironics have a node %s: kubectl bmh adopt cannot tell which one is meant", found.Name)
			}
			if found != nil {
				return nil, fmt.Errorf("several nodes are called %q: use the UUID", node)
			}
			found = &candidates[i]
		}
	}
	if found == nil {
		return nil, fmt.Errorf("Ironic has no node %q without a host; kubectl bmh candidates lists those there are", node)
	}
	return found, nil
}

// hostNameFor returns the name that the host of a node must have. The server takes over a node without
// a name by its BMC, one with a name for the host with that name, and one with the name
// NAMESPACE~NAME, as servers of this kind name them, for that host only.
func hostNameFor(nodeName, wanted, namespace string) (string, error) {
	name := nodeName
	if itsNamespace, itsName, found := strings.Cut(nodeName, "~"); found {
		if itsNamespace != namespace {
			return "", fmt.Errorf("the node's name %s makes it that of a host in namespace %s: use -n %s, or rename the node in Ironic", nodeName, itsNamespace, itsNamespace)
		}
		name = itsName
	}
	switch {
	case name == "" && wanted == "":
		return "", errors.New("the node has no name: set --name")
	case name != "" && wanted != "" && wanted != name:
		return "", fmt.Errorf("the host of node %s must be called %s: leave out --name, or rename the node in Ironic", nodeName, name)
	}
	return cmp.Or(name, wanted), nil
}

// entryFor returns the machine that the host is made of. What runs must go on running, so the host is
// as the node is: active nodes are externally provisioned, and the power stays.
func (c *adoptCommand) entryFor(candidate *ironic.Candidate, namespace string) (inventory.Entry, error) {
	status := candidate.Status
	name, err := hostNameFor(status.NodeName, c.name, namespace)
	if err != nil {
		return inventory.Entry{}, err
	}
	entry := inventory.New(name)
	entry.Spec.BMC.Address = cmp.Or(c.address, status.BMCAddress)
	if entry.Spec.BMC.Address == "" {
		return entry, fmt.Errorf("the node's driver %s has no address that a host can have: set --address", status.Driver)
	}
	entry.Spec.BootMACAddress = c.mac
	if c.mac == "" && len(status.MACAddresses) == 1 {
		entry.Spec.BootMACAddress = status.MACAddresses[0]
	}
	entry.Given.Insert("online", "externallyProvisioned")
	entry.Spec.Online = status.PowerState != "power off"
	entry.Spec.ExternallyProvisioned = status.ProvisionState == "active"
	if entry.Spec.ExternallyProvisioned {
		entry.Spec.AutomatedCleaningMode = metal3.CleaningModeDisabled
	}
	return entry, nil
}
