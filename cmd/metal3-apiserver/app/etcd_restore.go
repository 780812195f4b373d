// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"
)

// minRevisionBump is at least added to the revision when a snapshot is restored. With it, no client has seen a version
// of an object that does not exist any more under the resourceVersion of another one: all watches end with
// 410 Gone, and clients list again. It is what etcd's documentation suggests for Kubernetes: more than a week
// of 1,500 writes a second.
const minRevisionBump = 1_000_000_000

// revisionBump is what is added to a revision when a snapshot of it is restored. The new revision follows the time, at 1,000 for each second:
// a snapshot that is restored once more must not have the revisions again that clients saw after the first time. The members of a cluster
// are restored one after the other, each by itself, and must all have the same revision, or etcd gives different answers by the member.
func revisionBump(revision int64, ofMember bool, now time.Time) uint64 {
	if ofMember {
		return minRevisionBump
	}
	return uint64(max(minRevisionBump, now.UnixMilli()-revision))
}

// snapshotRestore is the command that restores a snapshot.
type snapshotRestore struct {
	// dataDir is that of a server with an embedded etcd, memberDir that of a member of a cluster.
	dataDir, memberDir string
	name, peerURL      string
	cluster, token     string
	keepOld            bool
}

func newSnapshotRestoreCommand() *cobra.Command {
	r := &snapshotRestore{
		memberDir: etcdEnv("DATA_DIR", ""), name: etcdEnv("NAME", ""), peerURL: etcdEnv("INITIAL_ADVERTISE_PEER_URLS", ""),
		cluster: etcdEnv("INITIAL_CLUSTER", ""), token: etcdEnv("INITIAL_CLUSTER_TOKEN", "etcd-cluster"),
	}
	cmd := &cobra.Command{
		Use:   "restore {FILE | -}",
		Short: "Make the data directory of an etcd from a snapshot",
		Long: `restore makes the data directory of an etcd that is not running from a snapshot in a file, or
from the standard input if FILE is -. It refuses to continue if there is data already, unless that is to be
kept beside the new one (--keep-old), until "discard" deletes it. The revision of etcd is raised, so that
clients which watch list again.

The data directory is that of a server with an embedded etcd (--data-dir), or that of a member
of a cluster (--etcd-data-dir). For the latter, the same snapshot has to be restored for each of the members,
with the --initial-cluster of all of them. Docs: docs/high-availability.md.`,
		Args:         cobra.ExactArgs(1),
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if r.dataDir != "" && !cmd.Flags().Changed("etcd-data-dir") {
				r.memberDir = "" // it is from the environment
			}
			var in io.Reader
			if args[0] == "-" {
				in = cmd.InOrStdin()
			}
			return r.run(args[0], in, cmd.ErrOrStderr())
		},
	}
	fs := cmd.Flags()
	addDataFlags(fs, &r.dataDir, &r.memberDir)
	fs.StringVar(&r.name, "name", r.name, "Name of the member (env ETCD_NAME).")
	fs.StringVar(&r.peerURL, "initial-advertise-peer-urls", r.peerURL, "URL of the member for the other ones (env ETCD_INITIAL_ADVERTISE_PEER_URLS).")
	fs.StringVar(&r.cluster, "initial-cluster", r.cluster, "All members, as NAME=URL,NAME=URL (env ETCD_INITIAL_CLUSTER).")
	fs.BoolVar(&r.keepOld, "keep-old", r.keepOld, "If there is data already, move it to a directory beside it.")
	fs.StringVar(&r.token, "initial-cluster-token", r.token, "Token of the cluster (env ETCD_INITIAL_CLUSTER_TOKEN).")
	return cmd
}

// run restores the snapshot in a file, or the one that is read from in.
func (r *snapshotRestore) run(path string, in io.Reader, progress io.Writer) (err error) {
	target, config, err := r.target()
	if err != nil {
		return err
	}
	if r.dataDir != "" { // a server that runs must not lose its data
		if err := os.MkdirAll(r.dataDir, 0o700); err != nil {
			return err
		}
		lock, err := lockDir(r.dataDir)
		if err != nil {
			return err
		}
		defer func() { _ = lock.Close() }()
		if err := removeKilledRestores(r.dataDir); err != nil {
			return err
		}
	}
	_, err = os.Lstat(target)
	hasData := err == nil
	if hasData && !r.keepOld {
		return fmt.Errorf("%s exists already: a snapshot is restored to an etcd without data. If this one is not needed, stop it and use --keep-old", target)
	}
	parent := filepath.Dir(target)
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return err
	}
	// The directory gets its name when it is complete: if this process is killed, there is none.
	work, err := os.MkdirTemp(parent, restoring+"*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	if path, err = verified(path, in, work); err != nil {
		return err
	}
	config.SnapshotPath, config.OutputDataDir = path, filepath.Join(work, "data")
	// Its hash is known to be right: bbolt maps the file into memory, and a page number that is wrong is a fault
	// that ends the process, and no error.
	manager := snapshot.NewV3(zap.NewNop())
	status, err := manager.Status(path)
	if err != nil {
		return fmt.Errorf("the snapshot cannot be read: %w", oneLine(err))
	}
	config.RevisionBump, config.MarkCompacted = revisionBump(status.Revision, r.dataDir == "", time.Now()), true
	if err := manager.Restore(config); err != nil {
		return fmt.Errorf("restoring the snapshot: %w", oneLine(err))
	}
	if hasData {
		if err := keepData(target, progress); err != nil {
			return err
		}
	}
	if err := os.Rename(config.OutputDataDir, target); err != nil {
		return err
	}
	fmt.Fprintf(progress, "restored %d keys of revision %d to %s; the revision is now %d\n", status.TotalKey, status.Revision, target, uint64(status.Revision)+config.RevisionBump)
	return syncDir(parent)
}

// verified returns the path of a snapshot whose hash is right: that of the given file, or of a copy in the directory work of what is read
// from in.
func verified(path string, in io.Reader, work string) (string, error) {
	if in == nil {
		return path, verifyFile(path)
	}
	path = filepath.Join(work, "snapshot.db")
	return path, copyToFile(path, in)
}

// keepData moves the data of a member to a directory beside it.
func keepData(dir string, progress io.Writer) error {
	old := dir + beforeRestore + time.Now().UTC().Format(snapshotTime)
	if err := os.Rename(dir, old); err != nil {
		return err
	}
	fmt.Fprintf(progress, "the data that were there are in %s, until \"metal3-apiserver etcd snapshot discard\" deletes them\n", old)
	return nil
}

// target returns the directory to make, and who its member is.
func (r *snapshotRestore) target() (string, snapshot.RestoreConfig, error) {
	var none snapshot.RestoreConfig
	target, err := etcdDataDir(r.dataDir, r.memberDir)
	switch {
	case err != nil:
		return "", none, err
	case r.dataDir != "":
		config, err := r.embedded(filepath.Dir(target))
		return target, config, err
	case r.name == "" || r.peerURL == "" || r.cluster == "":
		return "", none, errors.New("--name, --initial-advertise-peer-urls and --initial-cluster are required for a member of a cluster")
	}
	return target, snapshot.RestoreConfig{Name: r.name, PeerURLs: []string{r.peerURL}, InitialCluster: r.cluster, InitialClusterToken: r.token}, nil
}

// embedded returns who the member of a server with an embedded etcd is.
func (r *snapshotRestore) embedded(dir string) (snapshot.RestoreConfig, error) {
	peer, err := socketURL(dir, peerSocket)
	if err != nil {
		return snapshot.RestoreConfig{}, err
	}
	return snapshot.RestoreConfig{
		Name: embeddedName, PeerURLs: []string{peer.String()}, InitialCluster: embeddedName + "=" + peer.String(), InitialClusterToken: r.token,
	}, nil
}

// copyToFile copies a snapshot to a new file, and verifies its hash.
func copyToFile(path string, in io.Reader) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = copySnapshot(file, in)
	return errors.Join(err, file.Close())
}

// verifyFile verifies the hash of the snapshot in a file.
func verifyFile(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	_, err = copySnapshot(io.Discard, file)
	return errors.Join(err, file.Close())
}

// syncDir makes sure that the names in a directory are on the disk.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
