// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const (
	// beforeRestore is in the name of a directory that "restore --keep-old" has kept: after it is the time.
	beforeRestore = ".before-"
	// restoring begins the name of a directory in which a restore works.
	restoring = ".restore-"
)

// newSnapshotDiscardCommand returns the command that deletes what a restore has kept: the image has no other program that
// could.
func newSnapshotDiscardCommand() *cobra.Command {
	dataDir, memberDir := "", etcdEnv("DATA_DIR", "")
	cmd := &cobra.Command{
		Use:   "discard",
		Short: "Delete the data that \"restore --keep-old\" has kept",
		Long: `discard deletes all data that restores with --keep-old have kept beside those of an etcd, which may
run meanwhile. It deletes nothing if that etcd has no data itself.`,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dataDir != "" && !cmd.Flags().Changed("etcd-data-dir") {
				memberDir = "" // it is from the environment
			}
			target, err := etcdDataDir(dataDir, memberDir)
			if err != nil {
				return err
			}
			return discardOld(target, cmd.ErrOrStderr())
		},
	}
	addDataFlags(cmd.Flags(), &dataDir, &memberDir)
	return cmd
}

// addDataFlags adds the flags that name the data of an etcd.
func addDataFlags(fs *pflag.FlagSet, dataDir, memberDir *string) {
	fs.StringVar(dataDir, "data-dir", *dataDir, "Data directory of a server with an embedded etcd.")
	fs.StringVar(memberDir, "etcd-data-dir", *memberDir, "Data directory of a member of a cluster (env ETCD_DATA_DIR).")
}

// etcdDataDir returns the directory with the data of etcd itself, of which one of the flags says where it is.
func etcdDataDir(dataDir, memberDir string) (string, error) {
	switch {
	case (dataDir == "") == (memberDir == ""):
		return "", errors.New("either --data-dir (for a server with an embedded etcd) or --etcd-data-dir (for a member of a cluster) is required")
	case memberDir != "":
		return filepath.Clean(memberDir), nil
	}
	dir, err := filepath.Abs(dataDir)
	return filepath.Join(dir, embeddedDir), err
}

// discardOld deletes the directories that restores to target have kept.
func discardOld(target string, progress io.Writer) error {
	// Those that are there before the look at target are not what a restore is replacing now.
	entries, err := os.ReadDir(filepath.Dir(target))
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(target, "member")); err != nil {
		return fmt.Errorf("%s has no data of etcd, so nothing is deleted beside it: %w", target, err)
	}
	deleted := 0
	for _, entry := range entries {
		if !isKept(entry.Name(), filepath.Base(target)) {
			continue
		}
		old := filepath.Join(filepath.Dir(target), entry.Name())
		if err := os.RemoveAll(old); err != nil {
			return err
		}
		deleted++
		fmt.Fprintf(progress, "deleted %s\n", old)
	}
	if deleted == 0 {
		fmt.Fprintf(progress, "no restore has kept data beside %s\n", target)
	}
	return nil
}

// isKept reports whether this is the name of a directory that a restore to target has kept.
func isKept(name, target string) bool {
	at, kept := strings.CutPrefix(name, target+beforeRestore)
	_, err := time.Parse(snapshotTime, at)
	return kept && err == nil
}

// removeKilledRestores deletes what restores that were killed have left in the data directory of a server, which must be
// locked.
func removeKilledRestores(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), restoring) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, entry.Name())); err != nil {
			return fmt.Errorf("removing what an earlier restore has left: %w", err)
		}
	}
	return nil
}
