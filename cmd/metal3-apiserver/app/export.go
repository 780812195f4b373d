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
		Short: "Gives the objects back to CustomResourceDefinitions",
		Long: `export brings the custom resources of metal3.io/v1alpha1 to what metal3-apiserver
stores, and has them served again. It refuses to go on when something is off, and
can be run again after an interruption. With --to it only writes a file. See
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
		fs.StringVar(&to, "to", to, "Write all objects as YAML to this file, - for the standard output, and do nothing else. No cluster is needed.")
		fs.BoolVar(&e.Prune, "prune", e.Prune, "Delete the custom resources of what was deleted since the switch. Without it they are named.")
	})
	return cmd
}

// backup writes a whole file or none.
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
	// It names the Secrets of all hosts, if not what is in them.
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
	fmt.Fprintf(cmd.OutOrStdout(), "%d objects are in %s\n", objects, to)
	return nil
}
