// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/printers"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"

	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/view"
)

func newHistoryCommand(s *session) *cobra.Command {
	limit := 20
	cmd := &cobra.Command{
		Use:               "history NAME",
		GroupID:           groupSee,
		Short:             "Show what went wrong with a host, from Ironic's own history",
		Long:              "Shows what Ironic has recorded about the node of a host, newest first (GET of the subresource history).",
		Example:           "  kubectl bmh history worker-0 --limit 50",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: s.completeOneHost,
		RunE:              func(cmd *cobra.Command, args []string) error { return s.history(cmd.Context(), args[0], limit) },
	}
	cmd.Flags().IntVar(&limit, "limit", limit, "How many events to show; 0 means up to 500")
	return cmd
}

func (s *session) history(ctx context.Context, name string, limit int) error {
	if limit < 0 {
		return fmt.Errorf("--limit must not be negative")
	}
	c, namespace, err := s.connect()
	if err != nil {
		return err
	}
	if err := c.needServer(ctx, "Ironic's history of a host"); err != nil {
		return err
	}
	host := &metal3.BareMetalHost{}
	host.Namespace, host.Name = namespace, name
	events, err := c.historyOf(ctx, host, limit)
	if err != nil {
		return err
	}
	if len(events) == 0 {
		fmt.Fprintf(s.ErrOut, "Ironic has recorded nothing about %s.\n", view.Clean(name))
		return nil
	}
	w := printers.GetNewTabWriter(s.Out)
	fmt.Fprintln(w, "TIME\tAGO\tSEVERITY\tTYPE\tMESSAGE")
	for _, e := range events {
		ago := duration.HumanDuration(max(0, s.now().Sub(e.Time.Time)))
		fmt.Fprintln(w, strings.Join([]string{e.Time.UTC().Format(time.RFC3339), ago, view.Clean(e.Severity), view.Clean(e.Type), view.Clean(e.Message)}, "\t"))
	}
	return w.Flush()
}

// historyOf returns the newest events that Ironic has recorded of a host, at most limit of them, or
// as many as the server gives at once if limit is 0: those are more than Ironic keeps by default.
func (c *clients) historyOf(ctx context.Context, host *metal3.BareMetalHost, limit int) ([]metal3.HistoryEvent, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	history, err := c.hosts(host.Namespace).GetHistory(ctx, host.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	events := history.Status.Events
	if limit > 0 {
		events = events[:min(len(events), limit)]
	}
	return events, nil
}
