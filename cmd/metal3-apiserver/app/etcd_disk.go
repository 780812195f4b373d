// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"k8s.io/klog/v2"
)

// etcd ends the process when a write to its disk fails, and could not even be started again while the
// disk is full. So this server has etcd refuse writes before that, and holds a file in reserve that
// makes room for the start if another process has filled the disk meanwhile.
const (
	// minFreeDisk is the free space below which the disk counts as full, in bytes. etcd allocates 64 MB
	// for its log at a time, and then needs some for what is committed until writes are refused.
	minFreeDisk = 96 << 20
	// diskReserveSize is the size of the file in reserve.
	diskReserveSize = 128 << 20
	// minFreeForReserve is the free space at which a disk that was full is used again. It leaves
	// some more than minFreeDisk after the reserve has been made.
	minFreeForReserve = diskReserveSize + 2*minFreeDisk
	diskInterval      = time.Second
)

// diskReserve is space in reserve on the disk of the embedded etcd. Writes are accepted only
// while it is there.
type diskReserve struct{ dir string }

func (d *diskReserve) path() string { return filepath.Join(d.dir, "reserve") }

// free returns how many bytes this process can write to the disk.
func (d *diskReserve) free() (int64, error) {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(d.dir, &stat); err != nil {
		return 0, fmt.Errorf("the free space of %s: %w", d.dir, err)
	}
	return int64(stat.Bavail) * int64(stat.Bsize), nil
}

// tooSmall returns an error that says what the disk lacks.
func (d *diskReserve) tooSmall() error {
	free, err := d.free()
	if err != nil {
		return err
	}
	return fmt.Errorf("%s has %d MiB free; at %d MiB, writes are accepted again", d.dir, free>>20, minFreeForReserve>>20)
}

// keep makes the reserve if there is space for it, and gives it up if the disk is full otherwise. It
// reports whether the reserve is there.
func (d *diskReserve) keep() bool {
	free, err := d.free()
	if err != nil {
		klog.ErrorS(err, "The space on the disk of the embedded etcd is not known")
		return true
	}
	info, err := os.Lstat(d.path())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		klog.ErrorS(err, "The reserve of disk space cannot be found")
		return true
	}
	if err == nil {
		finished := info.Size() == diskReserveSize
		if finished && free >= minFreeDisk {
			return true
		}
		if err := os.Remove(d.path()); err != nil {
			klog.ErrorS(err, "The reserve of disk space cannot be given up")
			return false
		}
		if finished {
			return false
		}
	}
	if free < minFreeForReserve {
		return false
	}
	if err := d.make(); err != nil {
		klog.ErrorS(err, "The reserve of disk space cannot be made")
		return false
	}
	return true
}

// hasSpaceToDefragment reports whether there is space for a second file of the database. etcd, which defragments it at its start without
// looking, does not start otherwise.
func (d *diskReserve) hasSpaceToDefragment() bool {
	info, err := os.Stat(filepath.Join(d.dir, embeddedDir, "member", "snap", "db"))
	if err != nil {
		return false // there is nothing to defragment, or etcd says what is wrong
	}
	free, err := d.free()
	return err == nil && free >= info.Size()+minFreeDisk
}

func (d *diskReserve) make() (err error) {
	file, err := os.OpenFile(d.path(), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, file.Close()); err != nil {
			err = errors.Join(err, os.Remove(d.path()))
		}
	}()
	return fileutil.Preallocate(file, diskReserveSize, true)
}
