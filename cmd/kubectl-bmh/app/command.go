// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"flag"
	"io"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"

	"github.com/metal3-io/metal3-apiserver/pkg/version"
)

// Run executes a command line and returns the exit code.
func Run(ctx context.Context, args []string, streams genericiooptions.IOStreams) int {
	return run(ctx, newSession(streams), args)
}

func run(ctx context.Context, s *session, args []string) int {
	command := newCommand(s)
	command.SetArgs(args)
	command.SetIn(s.In)
	command.SetOut(s.Out)
	command.SetErr(s.ErrOut)
	return s.exitCode(command.ExecuteContext(ctx))
}

func newCommand(s *session) *cobra.Command {
	root := newListCommand(s)
	root.Use = "bmh"
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl bmh"}
	root.Version = version.Version
	root.SetVersionTemplate(version.Line(root.DisplayName()) + "\n")
	root.SilenceErrors, root.SilenceUsage = true, true
	root.CompletionOptions.HiddenDefaultCmd = true
	root.Args = cobra.NoArgs
	root.PersistentPreRun = func(*cobra.Command, []string) { silenceLibraries() }
	s.flags.AddFlags(root.PersistentFlags())
	addVerbosity(root)
	root.AddGroup(
		&cobra.Group{ID: groupSee, Title: "See what hosts do:"},
		&cobra.Group{ID: groupAct, Title: "Act on hosts:"},
		&cobra.Group{ID: groupEnrol, Title: "Enrol hosts:"},
	)
	root.AddCommand(
		newWatchCommand(s),
		newUICommand(s),
		newWaitCommand(s),
		newWhyCommand(s),
		newHistoryCommand(s),
		newIronicsCommand(s),
		newCreateCommand(s),
		newCandidatesCommand(s),
		newAdoptCommand(s),
		newPowerCommand(s),
		newInspectCommand(s),
		newRetryCommand(s),
		newRebuildCommand(s),
		newTakeoverCommand(s),
		newTransferCommand(s),
		newMaintenanceCommand(s),
		newPauseCommand(s),
		newUnpauseCommand(s),
		newLocateCommand(s),
		newNMICommand(s),
		newConsoleCommand(s),
	)
	completeFlag(root, "namespace", s.completeNamespaces)
	return root
}

// The groups of commands in the help.
const (
	groupSee   = "see"
	groupAct   = "act"
	groupEnrol = "enrol"
)

// addVerbosity adds kubectl's flag -v, with which client-go logs its requests.
func addVerbosity(root *cobra.Command) {
	all := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(all)
	v := all.Lookup("v")
	v.Usage = "log level of the client libraries; 6 and more show the requests to the server"
	root.PersistentFlags().AddGoFlag(v)
}

// silenceLibraries hides the log messages of client-go, unless they were asked for: what goes
// wrong is reported by the commands themselves.
func silenceLibraries() {
	if !klog.V(1).Enabled() {
		klog.LogToStderr(false)
		klog.SetOutput(io.Discard)
		return
	}
	klog.SetOutput(os.Stderr)
}
