package app

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"

	ironic "github.com/metal3-io/metal3-apiserver/pkg/apis/ironic/v1alpha1"

	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/terminal"
	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/view"
	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/why"
)

var instanceResource = ironic.SchemeGroupVersion.WithResource("ironicinstances")

// listInstances returns the Ironics beside that of the server's flags.
func (c *clients) listInstances(ctx context.Context) ([]ironic.IronicInstance, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	list, err := c.dynamic.Resource(instanceResource).List(ctx, metav1.ListOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, errors.New("the server has no IronicInstances: it is too old, or the APIService v1alpha1.ironic.metal3-apiserver.io is missing")
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("IronicInstances are shown to administrators only, who have the cluster role metal3-ironics-editor: %w", err)
	case err != nil:
		return nil, err
	}
	instances := make([]ironic.IronicInstance, len(list.Items))
	for i := range list.Items {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &instances[i]); err != nil {
			return nil, err
		}
	}
	return instances, nil
}

func newIronicsCommand(s *session) *cobra.Command {
	print := newPrintFlags()
	cmd := &cobra.Command{
		Use:     "ironics",
		GroupID: groupSee,
		Short:   "Show which of several Ironics answer, which hosts they have, and what would help",
		Long: `Tells of each IronicInstance (ironicinstances.ironic.metal3-apiserver.io) whether the server can use it and its
Ironic answers, which hosts have their nodes in it, and what would help. The Ironic of the server's flags is not
among them. It needs the cluster role metal3-ironics-editor.`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return s.ironics(cmd.Context(), print) },
	}
	print.AddFlags(cmd)
	completeFlag(cmd, "output", completeWords(print.AllowedFormats()...))
	return cmd
}

func (s *session) ironics(ctx context.Context, print *genericclioptions.PrintFlags) error {
	var printer printers.ResourcePrinter
	if *print.OutputFormat != "" {
		var err error
		if printer, err = print.ToPrinter(); err != nil {
			return err
		}
	}
	c, _, err := s.connect()
	if err != nil {
		return err
	}
	instances, err := c.listInstances(ctx)
	if err != nil {
		return err
	}
	if printer != nil {
		for i := range instances {
			if err := printer.PrintObj(&instances[i], s.objects(*print.OutputFormat)); err != nil {
				return err
			}
		}
		return nil
	}
	if len(instances) == 0 {
		fmt.Fprintln(s.ErrOut, "There are no IronicInstances: all hosts are in the Ironic of the server's flags.")
		return nil
	}
	width := 0
	if terminal.IsTerminal(s.Out) {
		width, _ = terminal.Size(s.Out)
	}
	for i := range instances {
		var lines []string
		if i > 0 {
			lines = append(lines, "")
		}
		for _, paragraph := range why.ExplainInstance(&instances[i], s.now()) {
			lines = append(lines, view.Wrap(paragraph, width)...)
		}
		if _, err := fmt.Fprintln(s.Out, strings.Join(lines, "\n")); err != nil {
			return err
		}
	}
	return nil
}
