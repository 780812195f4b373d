// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	ironic "github.com/metal3-io/metal3-apiserver/pkg/apis/ironic/v1alpha1"

	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/terminal"
	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/view"
	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/why"
)

var instanceResource = ironic.SchemeGroupVersion.WithResource("ironicinstances")

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
	instances, isPrinted, err := listOrPrint[ironic.IronicInstance](ctx, s, instanceResource, print)
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("IronicInstances are shown to administrators only, who have the cluster role metal3-ironics-editor: %w", err)
	}
	if err != nil || isPrinted {
		return err
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
