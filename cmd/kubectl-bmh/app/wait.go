// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"

	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/hosts"
	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/view"
)

const (
	// defaultErrorGrace is longer than the pause after which the server repeats a failed
	// registration, so that a BMC that was away for a moment does not end a wait.
	defaultErrorGrace = time.Minute
	// personGrace is how long an error that only a person can end is put up with: a Secret may be
	// created just after its host.
	personGrace = 10 * time.Second
	// defaultWait is the default of --timeout. Hosts with much memory and many disks take an hour.
	defaultWait = 2 * time.Hour
)

// waitFlags are how to wait. The actions with --wait have them, too.
type waitFlags struct {
	timeout    time.Duration
	errorGrace time.Duration
	progress   string
}

func (w *waitFlags) addFlags(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&w.timeout, "timeout", defaultWait, "How long to wait; 0 means for ever")
	cmd.Flags().DurationVar(&w.errorGrace, "error-grace", defaultErrorGrace, "How long the same error of a host may last before the wait ends. The server tries again by itself meanwhile")
	cmd.Flags().StringVar(&w.progress, "progress", progressAuto, "How to show what hosts do, on stderr: auto, tty, plain, json or none")
	completeFlag(cmd, "progress", completeWords(progressAuto, progressTTY, progressPlain, progressJSON, progressNone))
}

func (w *waitFlags) check() error {
	if w.timeout < 0 || w.errorGrace < 0 {
		return errors.New("--timeout and --error-grace must not be negative")
	}
	return checkOneOf("--progress", w.progress, progressAuto, progressTTY, progressPlain, progressJSON, progressNone)
}

type waitCommand struct {
	*session
	chosen
	waitFlags
	target string
}

func newWaitCommand(s *session) *cobra.Command {
	c := &waitCommand{session: s}
	cmd := &cobra.Command{
		Use:     "wait (NAME... | -l LABELS | --all) --for STATE",
		GroupID: groupSee,
		Short:   "Wait until hosts are where they are wanted, and see how far they are",
		Long: `Waits until hosts are registered, inspected, available, provisioned, externally-provisioned, on, off,
ok (without an error), idle (nothing is being done with them) or deleted.

It ends early if a host has an error that does not go away, and says which. On a terminal, it shows the
steps that Ironic runs; otherwise it prints a line for each change. That goes to stderr; stdout has a line
for each host that has arrived.

Exit codes: 0 if all hosts have arrived, 1 for errors of the command itself, 2 if a host cannot get there,
3 if the time is over.`,
		Example: `  kubectl bmh wait worker-0 --for provisioned
  kubectl bmh wait --all --for available --timeout 30m
  kubectl bmh wait -l rack=7 --for off --progress plain`,
		ValidArgsFunction: s.completeHosts(0),
		RunE:              func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), unique(args)) },
	}
	c.chosen.addFlags(cmd)
	c.waitFlags.addFlags(cmd)
	cmd.Flags().StringVar(&c.target, "for", "", "What to wait for: "+strings.Join(targetNames(), ", "))
	utilruntime.Must(cmd.MarkFlagRequired("for"))
	completeFlag(cmd, "for", completeWords(targetNames()...))
	return cmd
}

func targetNames() []string {
	names := make([]string, len(hosts.Targets))
	for i, target := range hosts.Targets {
		names[i] = string(target)
	}
	return names
}

func (c *waitCommand) run(ctx context.Context, names []string) error {
	if err := c.chosen.check(names); err != nil {
		return err
	}
	if err := checkOneOf("--for", c.target, targetNames()...); err != nil {
		return err
	}
	if err := c.waitFlags.check(); err != nil {
		return err
	}
	clients, namespace, err := c.connect()
	if err != nil {
		return err
	}
	target := hosts.Target(c.target)
	switch target {
	case hosts.Registered, hosts.On, hosts.Off: // the operator's status says nothing of these
		if err := clients.needServer(ctx, "--for "+c.target); err != nil {
			return err
		}
	default:
		c.warnIfRecorded(ctx, clients)
	}
	if target == hosts.Deleted {
		return c.waitForDeletion(ctx, clients, namespace, names)
	}
	found, err := c.find(ctx, clients, namespace, names)
	if err != nil {
		return err
	}
	return c.waitFor(ctx, clients, &c.waitFlags, namespace, found, target)
}

// waitForDeletion waits for the hosts that are left. What is gone when the wait begins is deleted, as with kubectl wait.
func (c *waitCommand) waitForDeletion(ctx context.Context, clients *clients, namespace string, names []string) error {
	found, _, err := c.findLeft(ctx, clients, namespace, names)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !slices.ContainsFunc(found, func(host *metal3.BareMetalHost) bool { return host.Name == name }) {
			fmt.Fprintf(c.Out, "baremetalhost.metal3.io/%s is %s\n", view.Clean(name), hosts.Deleted)
		}
	}
	if len(found) == 0 {
		return nil
	}
	return c.waitFor(ctx, clients, &c.waitFlags, namespace, found, hosts.Deleted)
}

// waitFor waits until all of the hosts have reached the target.
func (s *session) waitFor(ctx context.Context, c *clients, flags *waitFlags, namespace string, found []*metal3.BareMetalHost, target hosts.Target) error {
	if flags.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, flags.timeout)
		defer cancel()
	}
	names := make([]string, len(found))
	for i, host := range found {
		names[i] = host.Name
	}
	w := &wait{session: s, flags: flags, target: target, began: s.now(), others: s.otherHosts(ctx, c, namespace)}
	for _, host := range found {
		w.hosts = append(w.hosts, &waitedHost{uid: host.UID, Waiting: view.Waiting{Row: view.Row{Host: host}}})
	}
	fleet, err := watchFleet(ctx, c, namespace, watchOptions(names))
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return w.timedOut()
	case err != nil:
		return err
	}
	defer fleet.stop()
	display, err := s.newDisplay(flags.progress)
	if err != nil {
		return err
	}
	err = w.run(ctx, fleet, display)
	return cmp.Or(err, display.close())
}

// otherHosts returns the hosts of a namespace, for the times that they took. They are not needed
// if they cannot be read.
func (s *session) otherHosts(ctx context.Context, c *clients, namespace string) []*metal3.BareMetalHost {
	list, err := c.listHosts(ctx, namespace, metav1.ListOptions{})
	if err != nil {
		return nil
	}
	all := make([]*metal3.BareMetalHost, len(list.Items))
	for i := range list.Items {
		all[i] = &list.Items[i]
	}
	return all
}

// wait is the state of a wait.
type wait struct {
	*session
	flags  *waitFlags
	target hosts.Target
	began  time.Time
	hosts  []*waitedHost
	// others are the hosts whose times are known, and usual is what these say of a state that was asked for.
	others []*metal3.BareMetalHost
	usual  map[metal3.ProvisioningState]string
}

// usualIn says how long the operation of a state took on others. That is computed once: it goes through all hosts, and is asked for
// by all hosts every second.
func (w *wait) usualIn(state metal3.ProvisioningState) string {
	text, isKnown := w.usual[state]
	if !isKnown {
		text = hosts.Expectation(w.others, state)
		if w.usual == nil {
			w.usual = map[metal3.ProvisioningState]string{}
		}
		w.usual[state] = text
	}
	return text
}

// waitedHost is a host that is waited for.
type waitedHost struct {
	view.Waiting
	uid types.UID
	// step is the step that runs, and stepBegan when it was first seen.
	step      string
	stepBegan time.Time
	// blocked is the error that the host has, and blockedSince when it was first seen.
	blocked      string
	blockedSince time.Time
	warned       bool
}

func (w *waitedHost) hasEnded() bool { return w.Done || w.Failed != "" }

// run follows the fleet until all hosts have ended, and returns what the command returns.
func (w *wait) run(ctx context.Context, fleet *fleet, display display) error {
	tick := time.NewTicker(tickInterval)
	defer tick.Stop()
	for {
		if err := fleet.lost(); err != nil {
			return err
		}
		w.update(fleet.hosts())
		if err := display.show(w.waitings(), w.now(), fleet.notice()); err != nil {
			return err
		}
		if w.allEnded() {
			return w.result()
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return w.timedOut()
			}
			return &codedError{exitInterrupted, errors.New("interrupted; what was asked for goes on")}
		case <-tick.C:
		case <-fleet.changed:
		}
	}
}

func (w *wait) waitings() []view.Waiting {
	all := make([]view.Waiting, len(w.hosts))
	for i, h := range w.hosts {
		all[i] = h.Waiting
	}
	return all
}

func (w *wait) allEnded() bool {
	for _, h := range w.hosts {
		if !h.hasEnded() {
			return false
		}
	}
	return true
}

// update looks at all hosts anew.
func (w *wait) update(all []*metal3.BareMetalHost) {
	byUID := map[types.UID]*metal3.BareMetalHost{}
	for _, host := range all {
		byUID[host.UID] = host
	}
	now := w.now()
	for _, h := range w.hosts {
		if !h.hasEnded() {
			w.updateHost(h, byUID[h.uid], now)
		}
	}
}

func (w *wait) updateHost(h *waitedHost, host *metal3.BareMetalHost, now time.Time) {
	if host == nil {
		h.Gone = true
		if w.target != hosts.Deleted {
			h.Failed = "it was deleted"
			return
		}
		w.arrived(h, now)
		return
	}
	h.Host = host
	h.Usual = w.usualIn(host.Status.Provisioning.State)
	if step := hosts.ProgressOf(host).String(); step != h.step {
		if h.step != "" {
			h.LastStep, h.LastStepTook = h.step, now.Sub(h.stepBegan)
		}
		h.step, h.stepBegan = step, now
	}
	if h.Failed = hosts.FailedAt(host, w.target); h.Failed != "" {
		return
	}
	if hosts.Reached(host, w.target) {
		w.arrived(h, now)
		return
	}
	if why, ok := hosts.IsAskedFor(host, w.target); !ok && !h.warned {
		h.warned = true
		fmt.Fprintf(w.ErrOut, "note: %s will not be %s by itself: %s\n", view.Clean(host.Name), w.target, view.Clean(why))
	}
	if host.DeletionTimestamp != nil && w.target != hosts.Deleted {
		h.Failed = "it is being deleted"
		return
	}
	w.checkBlocked(h, now)
}

func (w *wait) arrived(h *waitedHost, now time.Time) {
	h.Done, h.Took = true, now.Sub(w.began)
}

// checkBlocked gives up on a host that has had the same error for too long.
func (w *wait) checkBlocked(h *waitedHost, now time.Time) {
	why, needsPerson := hosts.Blocked(h.Host)
	if why == "" {
		h.blocked = ""
		return
	}
	// The text of an error may differ from attempt to attempt, by an address or a time.
	kind := string(h.Host.Status.ErrorType)
	if kind == "" {
		kind = why
	}
	if h.blocked != kind {
		h.blocked, h.blockedSince = kind, now
	}
	grace := w.flags.errorGrace
	if needsPerson {
		grace = min(grace, personGrace)
	}
	if now.Sub(h.blockedSince) >= grace {
		h.Failed = why
	}
}

// result prints what has become of the hosts.
func (w *wait) result() error {
	failed := 0
	for _, h := range w.hosts {
		if h.Failed != "" {
			failed++
			fmt.Fprintf(w.ErrOut, "%s: %s\n", view.Clean(h.Host.Name), view.Clean(h.Failed))
			continue
		}
		fmt.Fprintf(w.Out, "baremetalhost.metal3.io/%s is %s\n", view.Clean(h.Host.Name), w.target)
	}
	switch {
	case failed == 0:
		return nil
	case len(w.hosts) == 1:
		return &codedError{exitHopeless, fmt.Errorf("%s cannot be %s until this is solved; kubectl bmh why %s -n %s says more",
			view.Clean(w.hosts[0].Host.Name), w.target, view.Clean(w.hosts[0].Host.Name), view.Clean(w.hosts[0].Host.Namespace))}
	}
	return &codedError{exitHopeless, fmt.Errorf("%d of %s cannot be %s until this is solved; kubectl bmh why NAME -n %s says more",
		failed, view.Plural(len(w.hosts), "host"), w.target, view.Clean(w.hosts[0].Host.Namespace))}
}

// timedOut is result for when the time is over.
func (w *wait) timedOut() error {
	missing := 0
	for _, h := range w.hosts {
		switch {
		case h.Done:
			fmt.Fprintf(w.Out, "baremetalhost.metal3.io/%s is %s\n", view.Clean(h.Host.Name), w.target)
		default:
			missing++
			fmt.Fprintln(w.ErrOut, view.PlainState(h.Row, false))
		}
	}
	if len(w.hosts) == 1 {
		return &codedError{exitTimeout, fmt.Errorf("timed out after %s: %s is not %s", w.flags.timeout, view.Clean(w.hosts[0].Host.Name), w.target)}
	}
	return &codedError{exitTimeout, fmt.Errorf("timed out after %s: %d of %s are not %s", w.flags.timeout, missing, view.Plural(len(w.hosts), "host"), w.target)}
}
