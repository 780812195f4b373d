// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

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
again. It refuses to continue if something is wrong, such as that the Bare Metal
Operator would harm machines, and can be run again after an interruption. With --to,
it only writes the objects to a file. See docs/migration.md.`,
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
			e.OpenStore, e.Restored, e.Lease, e.DryRun = m.openStore, m.restored, m.lease(), m.dryRun
			e.Report, e.Foresee = migrate.NewReport(cmd.OutOrStdout()), m.underOperator
			return e.Run(ctx)
		},
	}
	m.addFlags(cmd, func(fs *pflag.FlagSet) {
		fs.StringVar(&to, "to", to, "Only write all objects as YAML to this file, or to the standard output if it is -. This does not need a cluster.")
		fs.BoolVar(&e.RiskMachines, "risk-machines", e.RiskMachines, "Give hosts back although the Bare Metal Operator would harm their machines, or although etcd seems to be restored from a backup. Without this flag, this is told, and nothing is given back.")
		fs.BoolVar(&e.Prune, "prune", e.Prune, "Delete the custom resources of objects that were deleted after the switch. Without this flag, they are only listed.")
	})
	return cmd
}

// backup writes all objects to a new file, or to the standard output. If it fails, there is no file.
// It neither follows a symbolic link nor replaces anything: the command often runs as root, and in a
// directory such as /tmp others could have prepared the name.
func (m *migration) backup(ctx context.Context, cmd *cobra.Command, to string) (err error) {
	if to != "-" {
		if _, err := os.Lstat(to); err == nil {
			return fmt.Errorf("--to: %s exists already: remove it, or choose another name", to)
		}
	}
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
	file, err := os.CreateTemp(filepath.Dir(to), filepath.Base(to)+".partial-*")
	if err != nil {
		return fmt.Errorf("--to: %w", err)
	}
	defer func() { err = errors.Join(err, os.Remove(file.Name())) }()
	objects, err := migrate.Backup(ctx, store, file)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("--to: %w", err)
	}
	// Unlike a rename, this fails if the name is taken by now.
	if err := os.Link(file.Name(), to); err != nil {
		return fmt.Errorf("--to: %w", err)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "wrote %d objects to %s\n", objects, to)
	return nil
}
