// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
)

// NewEtcdCommand returns the command that runs a member of an etcd cluster, and those for its data.
func NewEtcdCommand(ctx context.Context) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "etcd [flags of etcd]",
		Short: "Run a member of an etcd cluster for metal3-apiserver",
		Long: `etcd is etcd itself, of the release that metal3-apiserver embeds. It has all flags and
environment variables of the program of that name: see "metal3-apiserver etcd --help"
and https://etcd.io/docs. The manifests of a highly available installation run three
of these members from the image of metal3-apiserver: see docs/high-availability.md.`,
		DisableFlagParsing: true,
		// etcd handles signals by itself, and ends the process.
		Run: func(_ *cobra.Command, args []string) { etcdmain.Main(append([]string{"etcd"}, args...)) },
	}
	cmd.AddCommand(newEtcdSnapshotCommand(ctx), newEtcdMaintainCommand(ctx), newEtcdReplaceCommand(ctx))
	return cmd
}
