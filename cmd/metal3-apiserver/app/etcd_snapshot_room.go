// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// volumeFullError says that a snapshot does not fit on its volume.
type volumeFullError struct {
	error
	// missing is how many bytes the volume lacks, as far as this is known.
	missing int64
}

func (e volumeFullError) Unwrap() error { return e.error }

// isFull reports whether err is that of a full volume, or of a user who may not have more of it.
func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// snapshotFile is an *os.File.
type snapshotFile interface {
	io.WriteCloser
	Name() string
	Sync() error
}

func createTemp(dir, pattern string) (snapshotFile, error) { return os.CreateTemp(dir, pattern) }

// volumeWriter remembers what became of writing to a volume.
type volumeWriter struct {
	out     io.Writer
	written int64
	err     error
}

func (w *volumeWriter) Write(p []byte) (int, error) {
	n, err := w.out.Write(p)
	w.written += int64(n)
	if err != nil {
		w.err = err
	}
	return n, err
}

// kept returns how many bytes the volume had space for. If it took all and is full only when they are synced, as NFS is,
// that is not known.
func (w *volumeWriter) kept() int64 {
	if w.err == nil {
		return 0
	}
	return w.written
}

// saveInRoom saves a snapshot to a new file. While it does not fit, older ones are deleted.
func (s *snapshotSave) saveInRoom(ctx context.Context, path string) error {
	for {
		err := s.saveFile(ctx, path)
		var full volumeFullError
		if !errors.As(err, &full) {
			return err
		}
		if err := s.makeRoom(full); err != nil {
			return err
		}
	}
}

// makeRoom deletes the oldest snapshots of the directory, because there is no space for a new one.
func (s *snapshotSave) makeRoom(full volumeFullError) error {
	saved, err := savedSnapshots(s.directory, time.Now())
	if err != nil {
		return err
	}
	var sizes []int64
	for _, path := range saved {
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		sizes = append(sizes, info.Size())
	}
	count := oldestToDelete(sizes, full.missing)
	if count == 0 {
		return fmt.Errorf("the volume of the snapshots is full: enlarge it by %d MiB or more. Nothing was deleted from %s, because the snapshots before the latest are too small to help: %w",
			max(0, full.missing)>>20+1, s.directory, full)
	}
	for i, old := range saved[:count] {
		if err := os.Remove(old); err != nil {
			return fmt.Errorf("removing an old snapshot from a full volume: %w", err)
		}
		fmt.Fprintf(s.progress, "the volume of the snapshots is full: deleted %s (%d MiB), the oldest of %d\n", filepath.Base(old), sizes[i]>>20, len(saved)-i)
	}
	return nil
}

// oldestToDelete returns how many snapshots have to be deleted to have so many bytes more, of which missing may be too
// few. The sizes are in bytes, that of the oldest first. It is 0 if that would not help, because something else
// has filled the volume. The latest snapshot always stays, and no more than that: with a database near its quota,
// the volume of the manifests has space for two.
func oldestToDelete(sizes []int64, missing int64) int {
	var freed int64
	for i := range max(0, len(sizes)-1) {
		if freed += sizes[i]; freed >= missing {
			return i + 1
		}
	}
	return 0
}
