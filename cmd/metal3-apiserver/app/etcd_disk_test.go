// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestDiskReserve checks that the reserve is made where there is space, made anew if it was not
// finished, and that it takes the space that it is for.
func TestDiskReserve(t *testing.T) {
	disk := &diskReserve{t.TempDir()}
	if free, err := disk.free(); err != nil || free < minFreeForReserve {
		t.Skipf("this needs %d bytes of free space: %d, %v", int64(minFreeForReserve), free, err)
	}
	for _, before := range []string{"nothing", "the reserve", "an unfinished reserve"} {
		if before == "an unfinished reserve" {
			if err := os.Truncate(disk.path(), 1); err != nil {
				t.Fatal(err)
			}
		}
		if !disk.keep() {
			t.Errorf("after %s, there is no reserve", before)
		}
		var info syscall.Stat_t
		if err := syscall.Stat(disk.path(), &info); err != nil || info.Size != diskReserveSize || info.Mode&0o777 != 0o600 {
			t.Errorf("after %s: %d bytes with mode %o, %v", before, info.Size, info.Mode, err)
		}
	}
}

// TestSpaceToDefragment checks that a database is defragmented only where a second file of its size fits.
func TestSpaceToDefragment(t *testing.T) {
	disk := &diskReserve{t.TempDir()}
	if disk.hasSpaceToDefragment() {
		t.Error("there is nothing to defragment")
	}
	snap := filepath.Join(disk.dir, embeddedDir, "member", "snap")
	if err := os.MkdirAll(snap, 0o700); err != nil {
		t.Fatal(err)
	}
	free, err := disk.free()
	if err != nil || free < 2*minFreeDisk {
		t.Skipf("this needs %d bytes of free space: %d, %v", int64(2*minFreeDisk), free, err)
	}
	for size, want := range map[int64]bool{1 << 20: true, free: false} {
		db, err := os.Create(filepath.Join(snap, "db"))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(db.Truncate(size), db.Close()); err != nil { // which takes no space
			t.Fatal(err)
		}
		if disk.hasSpaceToDefragment() != want {
			t.Errorf("%d bytes: %t", size, !want)
		}
	}
}

// TestReserveThatCannotBeGivenUp checks that there is no reserve where something else is in its place.
func TestReserveThatCannotBeGivenUp(t *testing.T) {
	disk := &diskReserve{t.TempDir()}
	if err := os.MkdirAll(disk.path()+"/not-empty", 0o700); err != nil {
		t.Fatal(err)
	}
	if disk.keep() {
		t.Error("there is a reserve")
	}
}

// TestFullDiskHasNoReserve checks that the reserve is given up on a disk that is full, and that it
// is not made again before there is space for more than the reserve.
func TestFullDiskHasNoReserve(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=400m,mode=0700"); err != nil {
		t.Skipf("a small disk cannot be mounted here, which requires root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	disk := &diskReserve{dir}
	filler := dir + "/filler"
	fill := func(bytes int64) {
		t.Helper()
		file, err := os.Create(filler)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if err := syscall.Fallocate(int(file.Fd()), 0, 0, bytes); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		used int64 // by others, in MiB
		want bool
	}{{1, true}, {150, true}, {200, false}, {150, false}, {100, false}, {60, true}, {100, true}} {
		fill(step.used << 20)
		if got := disk.keep(); got != step.want {
			t.Errorf("with %d MiB used by others, there is a reserve: %t, want %t", step.used, got, step.want)
		}
		if _, err := os.Stat(disk.path()); (err == nil) != step.want {
			t.Errorf("with %d MiB used by others: %v", step.used, err)
		}
	}
}
