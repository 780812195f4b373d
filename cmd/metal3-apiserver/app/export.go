package app

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/metal3-io/metal3-apiserver/pkg/migrate"
)

func newExportCommand(ctx context.Context) *cobra.Command {
	m := newMigration()
	e := &migrate.Export{}
	to := ""
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Give the objects back to CustomResourceDefinitions",
		Long: `export makes the custom resources of metal3.io/v1alpha1 the same as the objects
that metal3-apiserver stores, and makes the CustomResourceDefinitions serve them
again. It refuses to continue if something is wrong, and can be run again after an
interruption. With --to, it only writes the objects to a file. See
docs/migration.md.`,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if err := m.validate(); err != nil {
				return err
			}
			if to != "" {
				return m.backup(ctx, cmd, to)
			}
			if e.Cluster, err = m.cluster(); err != nil {
				return err
			}
			if e.Target, err = m.target(""); err != nil {
				return err
			}
			e.OpenStore, e.Lease, e.DryRun = m.openStore, m.lease(), m.dryRun
			e.Report = migrate.NewReport(cmd.OutOrStdout())
			return e.Run(ctx)
		},
	}
	m.addFlags(cmd, func(fs *pflag.FlagSet) {
		fs.StringVar(&to, "to", to, "Only write all objects as YAML to this file, or to the standard output if it is -. This does not need a cluster.")
		fs.BoolVar(&e.Prune, "prune", e.Prune, "Delete the custom resources of objects that were deleted after the switch. Without this flag, they are only listed.")
	})
	return cmd
}

// backup writes all objects to a file, or to the standard output. If it fails, there is no file.
func (m *migration) backup(ctx context.Context, cmd *cobra.Command, to string) (err error) {
	store, err := m.openStore(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	if to == "-" {
		_, err := migrate.Backup(ctx, store, cmd.OutOrStdout())
		return err
	}
	// Only the owner may read the file: it has the names of all hosts' Secrets, though not their
	// contents.
	file, err := os.OpenFile(to+".partial", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("--to: %w", err)
	}
	objects, err := migrate.Backup(ctx, store, file)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return errors.Join(fmt.Errorf("--to: %w", err), os.Remove(to+".partial"))
	}
	if err := os.Rename(to+".partial", to); err != nil {
		return fmt.Errorf("--to: %w", err)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "wrote %d objects to %s\n", objects, to)
	return nil
}
