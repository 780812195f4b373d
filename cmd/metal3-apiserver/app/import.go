// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/migrate"
)

func newImportCommand(ctx context.Context) *cobra.Command {
	m := newMigration()
	i := &migrate.Import{Wait: 30 * time.Second}
	caFile := ""
	cmd := &cobra.Command{
		Use:   "import",
		Short: "Take over the objects of a cluster that serves them with CustomResourceDefinitions",
		Long: `import copies the custom resources of metal3.io/v1alpha1 unchanged to the store of
metal3-apiserver, and compares them. With --switch, it makes metal3-apiserver serve
them. It refuses to continue if something is wrong, deletes nothing, and can be run
again after an interruption. Before the switch, it also says which hosts metal3-apiserver
will refuse or hold, and what it will do at first. See docs/migration.md.`,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if !i.Verify {
				if err := errors.Join(m.validate(), m.validateForesight()); err != nil {
					return err
				}
			}
			if i.Cluster, err = m.cluster(); err != nil {
				return err
			}
			if i.Target, err = m.target(caFile); err != nil {
				return err
			}
			i.OpenStore, i.Lease, i.DryRun = m.openStore, m.lease(), m.dryRun
			i.Report = migrate.NewReport(cmd.OutOrStdout())
			i.Foresee = func(ctx context.Context, hosts []*metal3.BareMetalHost) (problems, first []string, err error) {
				return m.foresee(ctx, i.Cluster, i.Report, hosts)
			}
			return i.Run(ctx)
		},
	}
	m.addFlags(cmd, func(fs *pflag.FlagSet) {
		fs.BoolVar(&i.Switch, "switch", i.Switch, "Make metal3-apiserver serve the group, provided that everything is copied.")
		fs.BoolVar(&i.Verify, "verify", i.Verify, "Verify a switch that is done, and let metal3-apiserver manage the hosts. Its etcd is not opened.")
		fs.BoolVar(&i.LostNodes, "lost-nodes", i.LostNodes, "With --switch or --verify, let metal3-apiserver manage the hosts although Ironic has none of their nodes, because it has lost its database: they are registered in it again.")
		fs.BoolVar(&i.DropUnknownFields, "drop-unknown-fields", i.DropUnknownFields, "Drop fields that metal3-apiserver does not know. Without this flag, they are listed, and nothing is copied.")
		fs.BoolVar(&i.Replace, "replace", i.Replace, "Make the store the same as the CRDs, whatever it already contains.")
		fs.StringVar(&caFile, "apiservice-ca-file", caFile, "File with the certificate of the authority that signed metal3-apiserver's certificate. Required with --switch.")
		m.options.addDestinationFlags(fs)
		m.options.addIronicFlags(fs)
		fs.DurationVar(&i.Wait, "wait", i.Wait, "How long to wait after the switch for metal3-apiserver to answer, and then to reach Ironic.")
	})
	cmd.MarkFlagsMutuallyExclusive("switch", "verify", "replace")
	return cmd
}
