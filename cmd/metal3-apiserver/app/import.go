package app

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/metal3-io/metal3-apiserver/pkg/migrate"
)

func newImportCommand(ctx context.Context) *cobra.Command {
	m := newMigration()
	i := &migrate.Import{Wait: 30 * time.Second}
	caFile := ""
	cmd := &cobra.Command{
		Use:   "import",
		Short: "Takes over the objects of a cluster that has them as CustomResourceDefinitions",
		Long: `import copies the custom resources of metal3.io/v1alpha1, as they are, to where
metal3-apiserver stores its objects, and compares. With --switch, metal3-apiserver
then serves them. It refuses to go on when something is off, deletes nothing, and
can be run again after an interruption. See docs/migration.md.`,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if err := m.validate(); err != nil {
				return err
			}
			if i.Switch && i.Replace {
				return errors.New("--replace is for import without --switch")
			}
			if i.Cluster, err = m.cluster(); err != nil {
				return err
			}
			if i.Target, err = m.target(caFile); err != nil {
				return err
			}
			i.OpenStore, i.Lease, i.DryRun = m.openStore, m.lease(), m.dryRun
			i.Report = migrate.NewReport(cmd.OutOrStdout())
			return i.Run(ctx)
		},
	}
	m.addFlags(cmd, func(fs *pflag.FlagSet) {
		fs.BoolVar(&i.Switch, "switch", i.Switch, "Have metal3-apiserver serve the group, once everything is copied.")
		fs.BoolVar(&i.DropUnknownFields, "drop-unknown-fields", i.DropUnknownFields, "Lose the fields that metal3-apiserver does not know. Without it they are named, and nothing is done.")
		fs.BoolVar(&i.Replace, "replace", i.Replace, "Have the storage become what the CRDs are, whatever it holds already.")
		fs.StringVar(&caFile, "apiservice-ca-file", caFile, "File with the certificate of the authority that signed metal3-apiserver's; needed with --switch.")
		fs.DurationVar(&i.Wait, "wait", i.Wait, "How long metal3-apiserver may take to answer after the switch.")
	})
	return cmd
}
