// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap/zapcore"
	"k8s.io/apiserver/pkg/storage/storagebackend"
)

const (
	snapshotPrefix = "metal3-etcd-"
	snapshotSuffix = ".db"
	// snapshotTime sorts by time.
	snapshotTime = "20060102T150405.000Z"
	// snapshotTimeout limits one attempt to save a snapshot, of up to 8 GiB.
	snapshotTimeout = 10 * time.Minute
)

func newEtcdSnapshotCommand(ctx context.Context) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "snapshot",
		Short: "Save the data of etcd to a file, and restore it",
		Args:  cobra.NoArgs,
	}
	cmd.AddCommand(newSnapshotSaveCommand(ctx), newSnapshotReadCommand(), newSnapshotRestoreCommand(), newSnapshotDiscardCommand(), newSnapshotAwaitCommand(ctx))
	return cmd
}

// snapshotSave is the command that saves a snapshot.
type snapshotSave struct {
	options   *Options
	directory string
	keep      int
	progress  io.Writer
	// write and create are save and createTemp, but for tests.
	write  func(ctx context.Context, out io.Writer) (size int64, err error)
	create func(dir, pattern string) (snapshotFile, error)
}

func newSnapshotSaveCommand(ctx context.Context) *cobra.Command {
	s := &snapshotSave{options: NewOptions(), keep: 48}
	s.write, s.create = s.save, createTemp
	cmd := &cobra.Command{
		Use:   "save {FILE | - | --directory DIRECTORY}",
		Short: "Save all data of etcd to a file",
		Long: `save writes a snapshot of etcd to a new file, or to the standard output if FILE is -.
It has everything that was written before the command began.

The etcd is that of --etcd-servers, of which one member is asked, or the embedded one of
a server that is stopped, in --data-dir.`,
		Args:         cobra.MaximumNArgs(1),
		SilenceUsage: true,
		PreRun:       func(*cobra.Command, []string) { quietLibraries() },
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 1) == (s.directory != "") {
				return errors.New("either a file (or - for the standard output) or --directory is required")
			}
			if s.keep < 1 {
				return fmt.Errorf("--keep is %d, it must be at least 1", s.keep)
			}
			var errs []error
			s.options.validateStorage(func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) })
			if err := joinOnOneLine(errs); err != nil {
				return err
			}
			s.progress = cmd.ErrOrStderr()
			if len(args) == 1 && args[0] == "-" {
				_, err := s.save(ctx, cmd.OutOrStdout())
				return err
			}
			if len(args) == 1 {
				return s.saveFile(ctx, args[0])
			}
			return s.saveAndPrune(ctx)
		},
	}
	s.options.addStorageFlags(cmd.Flags())
	cmd.Flags().StringVar(&s.directory, "directory", s.directory, "Directory in which a new file is made, whose name has the time. Older files of this command are deleted, also if its volume is full.")
	cmd.Flags().IntVar(&s.keep, "keep", s.keep, "How many files remain in --directory, if its volume has space for them.")
	return cmd
}

// saveFile saves a snapshot to a new file. If it fails, there is no file; if the volume is full, the error is a
// volumeFullError. Like migration.backup, it neither follows a symbolic link nor replaces anything.
func (s *snapshotSave) saveFile(ctx context.Context, path string) (err error) {
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("%s exists already: remove it, or choose another name", path)
	}
	file, err := s.create(filepath.Dir(path), filepath.Base(path)+".partial-*")
	if isFull(err) {
		return volumeFullError{error: err}
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(file.Name())) }()
	out := &volumeWriter{out: file}
	size, err := s.write(ctx, out)
	syncErr := errors.Join(file.Sync(), file.Close())
	full := isFull(out.err) || isFull(syncErr) // the disk of the embedded etcd may be full, too
	if err = errors.Join(err, syncErr); full {
		return volumeFullError{err, size - out.kept()}
	}
	if err != nil {
		return err
	}
	return os.Link(file.Name(), path)
}

// saveAndPrune saves a snapshot to a new file in the directory. Before that, it deletes what an earlier run that
// was killed has left, and after that, the oldest files. These are deleted before if the volume is full: otherwise
// there would never be a newer snapshot.
func (s *snapshotSave) saveAndPrune(ctx context.Context) error {
	leftovers, err := filepath.Glob(filepath.Join(s.directory, snapshotPrefix+"*"+snapshotSuffix+".partial-*"))
	if err != nil {
		return err
	}
	path := snapshotPath(s.directory, time.Now())
	for _, leftover := range leftovers {
		if err := os.Remove(leftover); err != nil {
			return fmt.Errorf("removing what an earlier snapshot has left: %w", err)
		}
	}
	if err := s.saveInRoom(ctx, path); err != nil {
		return err
	}
	saved, err := savedSnapshots(s.directory, time.Now())
	if err != nil {
		return err
	}
	others := slices.DeleteFunc(saved, func(other string) bool { return other == path })
	for _, old := range others[:max(0, len(others)+1-s.keep)] {
		if err := os.Remove(old); err != nil {
			return fmt.Errorf("removing an old snapshot: %w", err)
		}
	}
	return nil
}

// savedSnapshots returns the paths of the snapshots in a directory, the oldest first. Those of a later time than now are by a clock that was wrong.
// They were saved before, and count as the oldest: otherwise one of them would be the latest for years.
func savedSnapshots(directory string, now time.Time) ([]string, error) {
	saved, err := filepath.Glob(filepath.Join(directory, snapshotPrefix+"*"+snapshotSuffix))
	slices.Sort(saved)
	future, _ := slices.BinarySearch(saved, snapshotPath(directory, now.Add(time.Millisecond)))
	return slices.Concat(saved[future:], saved[:future]), err
}

// snapshotPath is the path of a snapshot that is saved now.
func snapshotPath(directory string, now time.Time) string {
	return filepath.Join(directory, snapshotPrefix+now.UTC().Format(snapshotTime)+snapshotSuffix)
}

// newSnapshotReadCommand returns the command that gets a snapshot out of a volume: the image has no other program
// that kubectl exec could run.
func newSnapshotReadCommand() *cobra.Command {
	directory := ""
	cmd := &cobra.Command{
		Use:   "read [FILE]",
		Short: "Write a saved snapshot to the standard output",
		Long: `read verifies the hash of a snapshot and writes it to the standard output. Without a
FILE, it is the latest one in --directory.`,
		Args:         cobra.MaximumNArgs(1),
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 1) == (directory != "") {
				return errors.New("either a file or --directory is required")
			}
			if directory != "" {
				saved, err := savedSnapshots(directory, time.Now())
				if err == nil && len(saved) == 0 {
					err = fmt.Errorf("%s has no snapshots", directory)
				}
				if err != nil {
					return err
				}
				fmt.Fprintf(cmd.ErrOrStderr(), "%d snapshots, the oldest %s, the latest %s\n", len(saved), filepath.Base(saved[0]), filepath.Base(saved[len(saved)-1]))
				args = saved[len(saved)-1:]
			}
			file, err := os.Open(args[0])
			if err != nil {
				return err
			}
			_, err = copySnapshot(cmd.OutOrStdout(), file)
			return errors.Join(err, file.Close())
		},
	}
	cmd.Flags().StringVar(&directory, "directory", directory, "Directory of \"save --directory\".")
	return cmd
}

// save writes a snapshot of the etcd of the options, and returns its size, also if it could not be written.
func (s *snapshotSave) save(ctx context.Context, out io.Writer) (size int64, err error) {
	config := s.options.Recommended.Etcd.StorageConfig.Transport
	if len(config.ServerList) == 0 {
		etcd, err := startEmbeddedEtcd(ctx, s.options.DataDir, s.options.DataDirQuota, zapcore.ErrorLevel)
		if err != nil {
			return 0, err
		}
		defer etcd.Close()
		config.ServerList = []string{etcd.Endpoint}
	}
	client, err := answeringMember(ctx, config)
	if err != nil {
		return 0, err
	}
	defer func() { _ = client.Close() }()
	ctx, cancel := context.WithTimeout(ctx, snapshotTimeout)
	defer cancel()
	status, err := client.Status(ctx, client.Endpoints()[0])
	if err != nil {
		return 0, fmt.Errorf("asking etcd at %s for its size: %w", client.Endpoints()[0], err)
	}
	snapshot, err := client.SnapshotWithVersion(ctx)
	if err != nil {
		return 0, fmt.Errorf("saving a snapshot of etcd at %s: %w", client.Endpoints()[0], err)
	}
	size, err = copySnapshot(out, snapshot.Snapshot)
	if err = errors.Join(err, snapshot.Snapshot.Close()); err != nil {
		return max(size, status.DbSize), fmt.Errorf("saving a snapshot of etcd at %s: %w", client.Endpoints()[0], err)
	}
	fmt.Fprintf(s.progress, "saved a snapshot of etcd at %s: %d bytes, etcd %s\n", client.Endpoints()[0], size, snapshot.Version)
	return size, nil
}

// answeringMember returns a client of a single member that knows everything that was written until now: the
// answer to a linearizable read waits until the member has it, while a snapshot is of what the member has. A member
// that does not answer in time is skipped.
func answeringMember(ctx context.Context, config storagebackend.TransportConfig) (*clientv3.Client, error) {
	var errs []error
	for _, server := range config.ServerList {
		config.ServerList = []string{server}
		client, err := newEtcdClient(config)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, etcdAnswerTimeout)
		_, err = client.Get(ctx, "/")
		cancel()
		if err == nil {
			return client, nil
		}
		_ = client.Close()
		errs = append(errs, fmt.Errorf("etcd at %s: %w", server, err))
	}
	return nil, joinOnOneLine(errs)
}

// copySnapshot copies a snapshot, at whose end etcd sends the SHA-256 hash of what is before.
func copySnapshot(out io.Writer, in io.Reader) (size int64, err error) {
	hash, buffer := sha256.New(), make([]byte, 256<<10)
	var tail []byte // what may be the hash, and is not yet in hash
	for {
		n, err := in.Read(buffer)
		if _, err := out.Write(buffer[:n]); err != nil {
			return size, err
		}
		size += int64(n)
		tail = append(tail, buffer[:n]...)
		if content := len(tail) - sha256.Size; content > 0 {
			hash.Write(tail[:content])
			tail = slices.Clone(tail[content:])
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return size, err
		}
	}
	if !bytes.Equal(hash.Sum(nil), tail) {
		return size, fmt.Errorf("the snapshot is damaged or incomplete: after %d bytes, its hash does not match", size)
	}
	return size, nil
}

// newSnapshotAwaitCommand returns the command that waits for a restore: an init container of a member, into
// which the snapshot is sent with kubectl exec.
func newSnapshotAwaitCommand(ctx context.Context) *cobra.Command {
	dir := etcdEnv("DATA_DIR", "")
	cmd := &cobra.Command{
		Use:   "await",
		Short: "Wait until a data directory exists, because a snapshot was restored",
		Long: `await waits until the data directory of a member exists, and ends at once if it does
already. Without a directory, it waits until it is stopped. A pod in which it runs is one in
which "kubectl exec" can save or restore a snapshot.`,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dir != "" {
				fmt.Fprintf(cmd.ErrOrStderr(), "waiting until there is data in %s: see \"metal3-apiserver etcd snapshot restore --help\"\n", dir)
			}
			return awaitData(ctx, dir)
		},
	}
	cmd.Flags().StringVar(&dir, "etcd-data-dir", dir, "Data directory of a member of etcd (env ETCD_DATA_DIR).")
	return cmd
}

// awaitData waits until a member has data in dir, or ctx ends.
func awaitData(ctx context.Context, dir string) error {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		if _, err := os.Stat(filepath.Join(dir, "member")); dir != "" && err == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			if dir == "" {
				return nil
			}
			return fmt.Errorf("no snapshot was restored to %s", dir)
		}
	}
}

// etcdEnv returns the value of the environment variable of a flag of etcd, so that a command in the pod of a
// member has the same settings as the member.
func etcdEnv(name, otherwise string) string {
	if value := os.Getenv("ETCD_" + name); value != "" {
		return value
	}
	return otherwise
}

// oneLine returns a library's message without line breaks.
func oneLine(err error) error { return errors.New(strings.ReplaceAll(err.Error(), "\n", " ")) }
