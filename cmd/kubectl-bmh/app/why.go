// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"

	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/hosts"
	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/terminal"
	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/view"
	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/why"
)

func newWhyCommand(s *session) *cobra.Command {
	return &cobra.Command{
		Use:     "why NAME",
		GroupID: groupSee,
		Short:   "Explain what a host is doing or waiting for, and what would help",
		Long: `Explains in sentences what a host is doing or waiting for, since when, and what would help. It is made of the
host's conditions, its events, what Ironic says about its node, and Ironic's history of it.`,
		Example:           `  kubectl bmh why worker-0`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: s.completeOneHost,
		RunE:              func(cmd *cobra.Command, args []string) error { return s.why(cmd.Context(), args[0]) },
	}
}

func (s *session) why(ctx context.Context, name string) error {
	clients, namespace, err := s.connect()
	if err != nil {
		return err
	}
	host, err := clients.getHost(ctx, namespace, name)
	if err != nil {
		return err
	}
	s.warnIfRecorded(ctx, clients)
	facts, missing := clients.factsOf(ctx, host, factsTimeout)
	width := 0
	if terminal.IsTerminal(s.Out) {
		width, _ = terminal.Size(s.Out)
	}
	for _, paragraph := range why.Explain(facts, s.now()) {
		if _, err := fmt.Fprintln(s.Out, strings.Join(view.Wrap(paragraph, width), "\n")); err != nil {
			return err
		}
	}
	for _, m := range missing {
		fmt.Fprintln(s.ErrOut, "note: without "+view.Clean(m))
	}
	return nil
}

// factsTimeout is how long an explanation waits for each answer of Ironic. If the host's Ironic hangs, that is what is to be
// explained, and it can be without.
const factsTimeout = 5 * time.Second

// factsOf returns what is known of a host, and what could not be read. Each answer of Ironic may take as long as the limit.
func (c *clients) factsOf(ctx context.Context, host *metal3.BareMetalHost, limit time.Duration) (facts why.Facts, missing []string) {
	facts.Host = host
	note := func(what string, err error) {
		// A host that is not in Ironic yet has none, and older servers have no such subresource.
		switch {
		case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err):
		case errors.Is(err, context.DeadlineExceeded):
			missing = append(missing, fmt.Sprintf("%s: it could not be asked for within %s", what, limit))
		default:
			missing = append(missing, what+": "+describe(err))
		}
	}
	ofIronic := func(ask func(ctx context.Context) error) error {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		return ask(ctx)
	}
	var err error
	facts.Events, err = c.eventsOf(ctx, host)
	note("events", err)
	err = ofIronic(func(ctx context.Context) (err error) {
		facts.History, err = c.historyOf(ctx, host, whyHistory)
		return err
	})
	note("Ironic's history", err)
	if errors.Is(err, context.DeadlineExceeded) {
		return facts, missing // it would not answer the next question either
	}
	// Ironic asks the image server for the image, which is worth the wait only if something is wrong.
	if hosts.Problem(host) != "" {
		err = ofIronic(func(ctx context.Context) (err error) {
			facts.Interfaces, err = c.validationOf(ctx, host)
			return err
		})
		note("Ironic's validation", err)
	}
	return facts, missing
}

// whyHistory is how much of Ironic's history is looked at.
const whyHistory = 20

// validationOf returns which of the interfaces of a host Ironic could use.
func (c *clients) validationOf(ctx context.Context, host *metal3.BareMetalHost) ([]metal3.InterfaceValidation, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	validation, err := c.hosts(host.Namespace).GetValidation(ctx, host.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return validation.Status.Interfaces, nil
}

// eventsOf returns the events of a host.
func (c *clients) eventsOf(ctx context.Context, host *metal3.BareMetalHost) ([]corev1.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	selector := fields.Set{"involvedObject.kind": "BareMetalHost", "involvedObject.uid": string(host.UID)}.AsSelector().String()
	list, err := c.core.CoreV1().Events(host.Namespace).List(ctx, metav1.ListOptions{FieldSelector: selector})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}
