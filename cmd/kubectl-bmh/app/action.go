// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"

	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/hosts"
	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/terminal"
	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/view"
)

// atOnce is how many hosts are acted on at the same time.
const atOnce = 8

// action is something that is done to hosts by a POST to one of their subresources.
type action struct {
	// past says what was done, for example "power off requested".
	past string
	// destroys says what the action interrupts, for example "switches off". It is asked about
	// if the hosts were not named. Empty for actions that interrupt nothing.
	destroys string
	// show, if it is set, says of a host what the user needs to know before a yes. Then all hosts are read, and it is
	// asked about all of them, also about those that were named. An empty text leaves a host out, and why says why.
	show func(host *metal3.BareMetalHost) (text, why string)
	// target is what --wait waits for.
	target hosts.Target
	// do makes the request.
	do doFunc
}

// doFunc makes the request of an action. It returns the answer, and what the server says in it.
type doFunc func(ctx context.Context, client hostClient, host *metal3.BareMetalHost, options metav1.CreateOptions) (answer runtime.Object, message string, err error)

// post returns what POSTs a request by a method of the client. messageOf returns what the server says in an answer; nil if it says
// nothing there.
func post[T runtime.Object](method func(hostClient, context.Context, string, T, metav1.CreateOptions) (T, error), request T, messageOf func(answer T) string) doFunc {
	return func(ctx context.Context, client hostClient, host *metal3.BareMetalHost, options metav1.CreateOptions) (runtime.Object, string, error) {
		copied := request.DeepCopyObject().(T) // what encodes it writes into it, for several hosts at the same time
		answer, err := method(client, ctx, host.Name, copied, options)
		if err != nil {
			return nil, "", err
		}
		if messageOf == nil {
			return answer, "", nil
		}
		return answer, messageOf(answer), nil
	}
}

// actionFlags are the flags of commands that act on hosts.
type actionFlags struct {
	*session
	chosen
	waitFlags
	print  *genericclioptions.PrintFlags
	dryRun string
	yes    bool
	wait   bool
	// canWait is set for actions that take time.
	canWait bool
}

func (f *actionFlags) addFlags(cmd *cobra.Command) {
	f.chosen.addFlags(cmd)
	f.print = newPrintFlags()
	f.print.AddFlags(cmd)
	cmd.Flags().StringVar(&f.dryRun, "dry-run", dryRunNone, "none, or server: the server checks everything and does nothing")
	cmd.Flags().BoolVarP(&f.yes, "yes", "y", false, "Do not ask for confirmation")
	completeFlag(cmd, "dry-run", completeWords(dryRunNone, dryRunServer))
	if f.canWait {
		f.waitFlags.addFlags(cmd)
		cmd.Flags().BoolVar(&f.wait, "wait", false, "Wait until it is done, as kubectl bmh wait does, and with its exit codes")
	}
}

// The values of --dry-run.
const (
	dryRunNone   = "none"
	dryRunClient = "client"
	dryRunServer = "server"
)

func (f *actionFlags) check(names []string) error {
	if err := f.chosen.check(names); err != nil {
		return err
	}
	if f.canWait {
		if err := f.waitFlags.check(); err != nil {
			return err
		}
	}
	if f.wait && f.dryRun != dryRunNone {
		return errors.New("--wait and --dry-run contradict each other")
	}
	return checkOneOf("--dry-run", f.dryRun, dryRunNone, dryRunServer)
}

func createOptions(dryRun string) metav1.CreateOptions {
	options := metav1.CreateOptions{FieldManager: fieldManager}
	if dryRun == dryRunServer {
		options.DryRun = []string{metav1.DryRunAll}
	}
	return options
}

// fieldManager is who owns the fields that the plugin sets.
const fieldManager = "kubectl-bmh"

// run does an action to the hosts that were chosen.
func (f *actionFlags) run(ctx context.Context, names []string, a action) error {
	if err := f.check(names); err != nil {
		return err
	}
	print, err := f.answerPrinter()
	if err != nil {
		return err
	}
	clients, namespace, err := f.connect()
	if err != nil {
		return err
	}
	if err := clients.needServer(ctx, "this action"); err != nil {
		return err
	}
	found, err := f.chosenHosts(ctx, clients, namespace, names, a)
	if err != nil {
		return err
	}
	if a.show != nil {
		if found = f.showEach(found, a.show); len(found) == 0 {
			return errors.New("there is nothing to do for these hosts: none waits for a confirmation of its own")
		}
	}
	if err := f.confirm(ctx, found, namespace, a); err != nil {
		return err
	}
	type outcome struct {
		answer  runtime.Object
		message string
	}
	var done []*metal3.BareMetalHost
	err = inOrder(found, atOnce, func(host *metal3.BareMetalHost) (outcome, error) {
		if ctx.Err() != nil {
			return outcome{}, errNotSent
		}
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		answer, message, err := a.do(ctx, clients.hosts(host.Namespace), host, createOptions(f.dryRun))
		return outcome{answer, message}, err
	}, func(host *metal3.BareMetalHost, o outcome, err error) error {
		if err != nil {
			text := describe(err)
			if mayBeDone(err) && f.dryRun != dryRunServer {
				text += "; nobody has answered, and it may have been carried out: look at the host before you do it again"
			}
			fmt.Fprintf(f.ErrOut, "%s: %s\n", view.Clean(host.Name), view.Clean(text))
			return errReported
		}
		done = append(done, host)
		return print(host, a.past, o.message, o.answer)
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if !f.wait || len(done) == 0 {
		return err
	}
	return cmp.Or(f.waitForAction(ctx, clients, namespace, done, a), err)
}

// chosenHosts returns the hosts that were chosen. Those that were named are not read, unless they have to be shown: the
// server says if they do not exist, host by host.
func (f *actionFlags) chosenHosts(ctx context.Context, c *clients, namespace string, names []string, a action) ([]*metal3.BareMetalHost, error) {
	if !f.isByName() || f.wait || a.show != nil {
		return f.find(ctx, c, namespace, names)
	}
	var found []*metal3.BareMetalHost
	for _, name := range unique(names) {
		found = append(found, &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
	}
	return found, nil
}

// waitForAction waits until an action has come to its end. Reads are live, so the hosts that it
// begins with show the action already.
func (f *actionFlags) waitForAction(ctx context.Context, c *clients, namespace string, done []*metal3.BareMetalHost, a action) error {
	s := *f.session
	if *f.print.OutputFormat != "" {
		s.Out = s.ErrOut // a program reads the objects
	}
	return s.waitFor(ctx, c, &f.waitFlags, namespace, done, a.target)
}

// answerPrinter returns what prints the answers of the server: as a line, or as -o asks for.
func (f *actionFlags) answerPrinter() (func(host *metal3.BareMetalHost, past, message string, answer runtime.Object) error, error) {
	if *f.print.OutputFormat != "" {
		printer, err := f.print.ToPrinter()
		if err != nil {
			return nil, err
		}
		return func(_ *metal3.BareMetalHost, _, _ string, answer runtime.Object) error {
			return printer.PrintObj(answer, f.objects(*f.print.OutputFormat))
		}, nil
	}
	return func(host *metal3.BareMetalHost, past, message string, _ runtime.Object) error {
		line := fmt.Sprintf("baremetalhost.metal3.io/%s %s", view.Clean(host.Name), past)
		if f.dryRun == dryRunServer {
			line += " (server dry run)"
		}
		if message != "" {
			line += ": " + view.Clean(message)
		}
		_, err := fmt.Fprintln(f.Out, line)
		return err
	}, nil
}

// namedInQuestion is how many hosts a question names.
const namedInQuestion = 5

// showEach shows hosts, and returns those of which there is something to show. If hosts were named, it says why others are left out.
func (f *actionFlags) showEach(found []*metal3.BareMetalHost, show func(*metal3.BareMetalHost) (text, why string)) []*metal3.BareMetalHost {
	var shown []*metal3.BareMetalHost
	for _, host := range found {
		text, why := show(host)
		switch {
		case text != "":
			fmt.Fprintln(f.ErrOut, text)
			shown = append(shown, host)
		case f.isByName():
			fmt.Fprintf(f.ErrOut, "%s is left out: %s\n", view.Clean(host.Name), view.Clean(why))
		}
	}
	return shown
}

// confirm asks whether to go on with an action that interrupts hosts which were not named, or of which was shown what it
// means for them.
func (f *actionFlags) confirm(ctx context.Context, found []*metal3.BareMetalHost, namespace string, a action) error {
	if a.destroys == "" || f.isByName() && a.show == nil || f.yes || f.dryRun == dryRunServer {
		return nil
	}
	var names []string
	for _, host := range found[:min(len(found), namedInQuestion)] {
		names = append(names, view.Clean(host.Name))
	}
	list := strings.Join(names, ", ")
	if more := len(found) - len(names); more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return f.ask(ctx, fmt.Sprintf("This %s %s in namespace %s: %s.", a.destroys, view.Plural(len(found), "host"), namespace, list))
}

// errDeclined is returned if the user did not want to go on.
var errDeclined = errors.New("nothing was done")

// ask asks whether to go on. Only y and yes are a yes.
func (s *session) ask(ctx context.Context, what string) error {
	if !s.canAsk() {
		return fmt.Errorf("%s There is no terminal to ask on: add --yes if that is right", what)
	}
	fmt.Fprintf(s.ErrOut, "%s\nContinue? [y/N] ", what)
	answer, _ := terminal.Await(ctx, func() (string, error) { return bufio.NewReader(s.In).ReadString('\n') }) // the end of the input is a no
	if ctx.Err() != nil {
		fmt.Fprintln(s.ErrOut)
		return ctx.Err()
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errDeclined
}
