// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/term"

	"github.com/metal3-io/metal3-apiserver/pkg/version"
)

// NewCommand returns the command, which runs until ctx ends.
func NewCommand(ctx context.Context) *cobra.Command {
	o := NewOptions()
	showVersion := false
	utilruntime.Must(logsapi.AddFeatureGates(utilfeature.DefaultMutableFeatureGate))
	cmd := &cobra.Command{
		Use:   "metal3-apiserver",
		Short: "Serve BareMetalHosts as an aggregated Kubernetes API, with live status from OpenStack Ironic",
		Long: `metal3-apiserver serves BareMetalHost (metal3.io/v1alpha1) as an aggregated
Kubernetes API. The spec is kept in etcd, the status is read from OpenStack
Ironic at each request, and power and inspection are subresources.

"metal3-apiserver import" takes over the objects of a cluster that serves them with
CustomResourceDefinitions, and "metal3-apiserver export" gives them back.
"metal3-apiserver etcd" runs a member of an etcd cluster, and saves and restores its data.`,
		Args: cobra.NoArgs,
		// An invalid flag is refused with a single line, without the usage.
		SilenceUsage: true,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			return compatibility.DefaultComponentGlobalsRegistry.Set()
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if showVersion {
				fmt.Fprintln(cmd.OutOrStdout(), version.Line(cmd.Name()))
				return nil
			}
			if err := logsapi.ValidateAndApply(o.Logs, utilfeature.DefaultFeatureGate); err != nil {
				return err
			}
			if err := o.Validate(); err != nil {
				return err
			}
			err := Run(ctx, o)
			if ctx.Err() != nil && errors.Is(err, context.Canceled) {
				return nil // stopped before it served requests
			}
			return err
		},
	}
	flags := o.Flags()
	global := flags.FlagSet("Global")
	globalflag.AddGlobalFlags(global, cmd.Name(), logs.SkipLoggingConfigurationFlags())
	global.BoolVar(&showVersion, "version", false, "Print the version, the commit, the version of Go and the platform, and exit.")
	for _, fs := range flags.FlagSets {
		cmd.Flags().AddFlagSet(fs)
	}
	columns, _, _ := term.TerminalSize(cmd.OutOrStdout())
	cliflag.SetUsageAndHelpFunc(cmd, flags, columns)
	cmd.SetFlagErrorFunc(explainOperatorFlag)
	cmd.AddCommand(newImportCommand(ctx), newExportCommand(ctx), NewEtcdCommand(ctx), newVersionCommand())
	return cmd
}
