// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/generated/clientset/versioned/scheme"

	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/consumers"
	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/terminal"
	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/view"
)

// consumersTimeout is how long a list waits for what is behind consumers. It is printed without
// it then.
const consumersTimeout = 5 * time.Second

// selection is which hosts a command is about: those of a namespace or of all, or some of them
// by labels or fields.
type selection struct {
	allNamespaces bool
	labels        string
	fields        string
}

func (sel *selection) addFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&sel.allNamespaces, "all-namespaces", "A", false, "The hosts of all namespaces")
	cmd.Flags().StringVarP(&sel.labels, "selector", "l", "", "Only hosts with these labels, for example rack=7")
	cmd.Flags().StringVar(&sel.fields, "field-selector", "", "Only hosts with these fields, for example status.provisioning.state=available")
}

func (sel *selection) namespace(namespace string) string {
	if sel.allNamespaces {
		return metav1.NamespaceAll
	}
	return namespace
}

func (sel *selection) options() metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: sel.labels, FieldSelector: sel.fields}
}

// outputWide is kubectl's -o wide, which is no printer of cli-runtime.
const outputWide = "wide"

// newPrintFlags returns the flag -o.
func newPrintFlags() *genericclioptions.PrintFlags {
	return genericclioptions.NewPrintFlags("").WithTypeSetter(scheme.Scheme)
}

// listCommand is kubectl bmh without a subcommand.
type listCommand struct {
	*session
	selection
	print     *genericclioptions.PrintFlags
	sort      string
	noHeaders bool
}

func newListCommand(s *session) *cobra.Command {
	c := &listCommand{session: s, print: newPrintFlags()}
	cmd := &cobra.Command{
		Short: "See what hosts do, and act on them",
		Long: `Shows the hosts of a namespace: the state of each, the step that Ironic runs at the moment, the
power, what uses the host, and what is wrong with it. All of it is read from Ironic at this moment.

Exit codes: 0 if all went well, 1 for errors. The command wait has others, too.`,
		Example: `  kubectl bmh -n metal3
  kubectl bmh -A -o wide --sort problem
  kubectl bmh watch
  kubectl bmh why worker-0
  kubectl bmh wait worker-0 --for provisioned
  kubectl bmh power off worker-0`,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	c.addFlags(cmd)
	c.print.AddFlags(cmd)
	cmd.Flags().Lookup("output").Usage = "Output format: wide, or one of: " + strings.Join(c.print.AllowedFormats(), ", ")
	cmd.Flags().StringVar(&c.sort, "sort", string(view.SortByName), "Order of the hosts: "+sortKeyNames())
	cmd.Flags().BoolVar(&c.noHeaders, "no-headers", false, "Do not print the heading")
	completeFlag(cmd, "sort", completeWords(sortKeys()...))
	completeFlag(cmd, "output", completeWords(append([]string{outputWide}, c.print.AllowedFormats()...)...))
	completeFlag(cmd, "field-selector", s.completeFieldSelectors)
	return cmd
}

func sortKeys() []string {
	names := make([]string, len(view.SortKeys))
	for i, key := range view.SortKeys {
		names[i] = string(key)
	}
	return names
}

func sortKeyNames() string { return strings.Join(sortKeys(), ", ") }

func checkSortKey(key string) (view.SortKey, error) {
	if !slices.Contains(view.SortKeys, view.SortKey(key)) {
		return "", fmt.Errorf("--sort must be one of %s, not %q", sortKeyNames(), key)
	}
	return view.SortKey(key), nil
}

func (c *listCommand) run(ctx context.Context) error {
	key, err := checkSortKey(c.sort)
	if err != nil {
		return err
	}
	var printer printers.ResourcePrinter
	if format := *c.print.OutputFormat; format != "" && format != outputWide {
		if printer, err = c.print.ToPrinter(); err != nil {
			return err
		}
	}
	clients, namespace, err := c.connect()
	if err != nil {
		return err
	}
	list, err := clients.listHosts(ctx, c.namespace(namespace), c.options())
	if err != nil {
		return err
	}
	c.warnIfRecorded(ctx, clients)
	if printer != nil {
		return printList(printer, *c.print.OutputFormat, list, c.objects(*c.print.OutputFormat))
	}
	if len(list.Items) == 0 {
		where := " in namespace " + namespace
		if c.allNamespaces {
			where = ""
		}
		fmt.Fprintf(c.ErrOut, "No hosts found%s.\n", where)
		return nil
	}
	rows := rowsOf(ctx, clients, list)
	view.Sort(rows, key, false)
	options := view.Options{
		Namespaces: c.allNamespaces, Wide: *c.print.OutputFormat == outputWide, NoHeaders: c.noHeaders, Now: c.now(), Style: c.style(c.Out),
	}
	if terminal.IsTerminal(c.Out) && !options.Wide {
		options.Width, _ = terminal.Size(c.Out)
	}
	_, err = fmt.Fprintln(c.Out, strings.Join(view.Table(rows, options), "\n"))
	return err
}

// printList prints a list with a printer of cli-runtime, of which that of names has no lists.
func printList(printer printers.ResourcePrinter, format string, list *metal3.BareMetalHostList, out io.Writer) error {
	withTypes(list)
	if format != "name" {
		return printer.PrintObj(list, out)
	}
	for i := range list.Items {
		if err := printer.PrintObj(&list.Items[i], out); err != nil {
			return err
		}
	}
	return nil
}

// withTypes fills in the kinds of the items of a list, which a client leaves out.
func withTypes(list *metal3.BareMetalHostList) {
	for i := range list.Items {
		list.Items[i].SetGroupVersionKind(metal3.SchemeGroupVersion.WithKind("BareMetalHost"))
	}
}

// rowsOf adds what stands behind the consumers of hosts.
func rowsOf(ctx context.Context, c *clients, list *metal3.BareMetalHostList) []view.Row {
	hosts := make([]*metal3.BareMetalHost, len(list.Items))
	for i := range list.Items {
		hosts[i] = &list.Items[i]
	}
	ctx, cancel := context.WithTimeout(ctx, consumersTimeout)
	defer cancel()
	return joinConsumers(hosts, consumers.Resolve(ctx, c.dynamic, hosts))
}

func joinConsumers(hosts []*metal3.BareMetalHost, behind map[string]consumers.Consumer) []view.Row {
	rows := make([]view.Row, len(hosts))
	for i, host := range hosts {
		consumer := behind[string(host.UID)]
		rows[i] = view.Row{Host: host, Machine: consumer.Machine, Node: consumer.Node}
	}
	return rows
}
