// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/consumers"
	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/terminal"
	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/view"
)

const (
	// frameInterval is the shortest time between two frames.
	frameInterval = 150 * time.Millisecond
	// tickInterval is how often the size of the terminal is looked at, and the durations on it
	// are counted on.
	tickInterval = time.Second
	// consumersInterval is how often Machines and Nodes are read again.
	consumersInterval = 30 * time.Second
)

// The values of --progress.
const (
	progressAuto  = "auto"
	progressTTY   = "tty"
	progressPlain = "plain"
	progressJSON  = "json"
	progressNone  = "none"
)

type watchCommand struct {
	*session
	selection
	progress string
	sort     string
	wide     bool
}

func newWatchCommand(s *session) *cobra.Command {
	c := &watchCommand{session: s}
	cmd := &cobra.Command{
		Use:     "watch",
		GroupID: groupSee,
		Short:   "Watch the fleet live",
		Long: `Watches hosts. On a terminal, it fills the screen and can be sorted and filtered with keys, which are
shown in the last line. Otherwise, it prints a line for each host, and then one for each change.`,
		Example: `  kubectl bmh watch -n metal3
  kubectl bmh watch -A --sort problem
  kubectl bmh watch -l rack=7 | tee log`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	c.addFlags(cmd)
	cmd.Flags().StringVar(&c.sort, "sort", string(view.SortByName), "Order of the hosts: "+sortKeyNames())
	cmd.Flags().BoolVar(&c.wide, "wide", false, "Show more columns")
	cmd.Flags().StringVar(&c.progress, "progress", progressAuto, "How to show changes: auto, tty or plain")
	completeFlag(cmd, "sort", completeWords(sortKeys()...))
	completeFlag(cmd, "progress", completeWords(progressAuto, progressTTY, progressPlain))
	completeFlag(cmd, "field-selector", s.completeFieldSelectors)
	return cmd
}

func (c *watchCommand) run(ctx context.Context) error {
	key, err := checkSortKey(c.sort)
	if err != nil {
		return err
	}
	if err := checkOneOf("--progress", c.progress, progressAuto, progressTTY, progressPlain); err != nil {
		return err
	}
	in, isFile := c.In.(*os.File)
	live := c.progress == progressTTY || c.progress == progressAuto && isFile && terminal.IsTerminal(c.Out) && terminal.IsTerminal(c.In)
	if live && !isFile {
		return fmt.Errorf("--progress=tty needs a terminal")
	}
	notices := &notices{}
	if live {
		c.warnings = notices // stderr is the same terminal
	}
	clients, namespace, err := c.connect()
	if err != nil {
		return err
	}
	recorded := ""
	switch {
	case !live:
		c.warnIfRecorded(ctx, clients)
	case clients.isRecordedOnly(ctx):
		recorded = "Warning: " + recordedOnly
	}
	if !live {
		return c.plain(ctx, clients, c.selection.namespace(namespace))
	}
	return c.live(ctx, in, clients, c.selection.namespace(namespace), key, func() string {
		return cmp.Or(notices.latest(c.now()), recorded)
	})
}

// checkOneOf checks a flag whose values are words.
func checkOneOf(flag, value string, allowed ...string) error {
	for _, a := range allowed {
		if value == a {
			return nil
		}
	}
	return fmt.Errorf("%s must be one of %s, not %q", flag, strings.Join(allowed, ", "), value)
}

// plain prints a line for each change until the context ends.
func (c *watchCommand) plain(ctx context.Context, clients *clients, namespace string) error {
	fleet, err := watchFleet(ctx, clients, namespace, c.options())
	if err != nil {
		return err
	}
	defer fleet.stop()
	printed := map[string]string{}
	for {
		select {
		case <-ctx.Done():
			return nil // there is no other end
		case <-fleet.changed:
		}
		if err := fleet.lost(); err != nil {
			return err
		}
		if notice := fleet.notice(); notice != "" && printed[""] != notice {
			fmt.Fprintln(c.ErrOut, "warning:", view.Clean(notice))
		}
		printed[""] = fleet.notice()
		seen := map[string]bool{"": true}
		rows := joinConsumers(fleet.hosts(), nil)
		view.Sort(rows, view.SortByName, false)
		for _, row := range rows {
			id, line := row.Host.Namespace+"/"+row.Host.Name, view.PlainState(row, c.allNamespaces)
			seen[id] = true
			if printed[id] == line {
				continue
			}
			printed[id] = line
			if _, err := fmt.Fprintf(c.Out, "%s  %s\n", view.PlainTime(c.now()), line); err != nil {
				return err // the reader of the pipe has gone
			}
		}
		for id := range printed {
			if !seen[id] {
				delete(printed, id)
				if !c.allNamespaces {
					_, id, _ = strings.Cut(id, "/")
				}
				fmt.Fprintf(c.Out, "%s  %s  deleted\n", view.PlainTime(c.now()), view.Clean(id))
			}
		}
	}
}

// live fills the screen until the user ends it.
func (c *watchCommand) live(ctx context.Context, in *os.File, clients *clients, namespace string, key view.SortKey, warning func() string) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Errors such as missing rights are shown on the usual screen.
	fleet, err := watchFleet(ctx, clients, namespace, c.options())
	if err != nil {
		return err
	}
	defer fleet.stop()
	keyboard, err := terminal.OpenKeyboard(ctx, in)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, keyboard.Close()) }()
	screen, err := terminal.NewScreen(c.Out)
	defer func() { err = cmp.Or(err, screen.Close()) }()
	if err != nil {
		return err
	}

	behind := make(chan map[string]consumers.Consumer, 1)
	resolver := newConsumerLoop(ctx, clients, fleet, behind)
	defer resolver.wait()
	defer cancel()

	model := &view.Fleet{Sort: key, Options: view.Options{Namespaces: c.allNamespaces, Wide: c.wide, Style: c.style(c.Out)}}
	known := map[string]consumers.Consumer{}
	tick := time.NewTicker(tickInterval)
	defer tick.Stop()
	for {
		if err := fleet.lost(); err != nil {
			return err
		}
		model.Rows = joinConsumers(fleet.hosts(), known)
		model.Notice = cmp.Or(fleet.notice(), warning())
		width, height := terminal.Size(c.Out)
		if err := screen.Draw(model.Frame(width, height, c.now()), width, height); err != nil {
			return err
		}
		drawn := time.Now()
		pressed, isPressed, gone := view.Key(""), false, false
		select {
		case <-ctx.Done():
			return nil
		case pressed, isPressed = <-keyboard.Keys:
			gone = !isPressed
		case <-tick.C:
		case known = <-behind:
		case <-fleet.changed:
			pressed, isPressed, gone = awaitFrame(ctx, keyboard.Keys, drawn)
		}
		if gone || isPressed && !model.Press(pressed) {
			return nil
		}
	}
}

// awaitFrame waits until it is time for the frame after the one that was drawn, because many hosts change at once, or
// until a key is pressed. It reports gone when the terminal has gone.
func awaitFrame(ctx context.Context, keys <-chan view.Key, drawn time.Time) (pressed view.Key, isPressed, gone bool) {
	rest := time.NewTimer(frameInterval - time.Since(drawn))
	defer rest.Stop()
	select {
	case <-rest.C:
	case <-ctx.Done():
	case pressed, isPressed = <-keys:
		return pressed, isPressed, !isPressed
	}
	return "", false, false
}

// consumerLoop reads what stands behind consumers, in the background: it may be slow.
type consumerLoop struct{ done chan struct{} }

func newConsumerLoop(ctx context.Context, clients *clients, fleet *fleet, results chan<- map[string]consumers.Consumer) *consumerLoop {
	l := &consumerLoop{done: make(chan struct{})}
	go func() {
		defer close(l.done)
		tick := time.NewTicker(consumersInterval)
		defer tick.Stop()
		for {
			known := consumers.Resolve(ctx, clients.dynamic, fleet.hosts())
			select {
			case results <- known:
			case <-ctx.Done():
				return
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return l
}

func (l *consumerLoop) wait() { <-l.done }
