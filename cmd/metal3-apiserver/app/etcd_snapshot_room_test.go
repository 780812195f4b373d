// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestOldestToDelete(t *testing.T) {
	for what, test := range map[string]struct {
		sizes   []int64
		missing int64
		want    int
	}{
		"the oldest is enough":            {[]int64{700, 700, 700}, 400, 1},
		"it is just enough":               {[]int64{700, 700, 700}, 700, 1},
		"etcd has grown":                  {[]int64{100, 100, 100, 900}, 250, 3},
		"all but the latest":              {[]int64{4, 4}, 4, 1},
		"not the latest":                  {[]int64{4}, 1, 0},
		"it would not help":               {[]int64{100, 100, 900}, 201, 0},
		"more is missing than all have":   {[]int64{100, 100, 900}, 5000, 0},
		"nothing is known to be missing":  {[]int64{100, 100, 900}, 0, 1},
		"etcd has sent more than it said": {[]int64{100, 100, 900}, -5, 1},
		"there are none":                  {nil, 1, 0},
	} {
		if got := oldestToDelete(test.sizes, test.missing); got != test.want {
			t.Errorf("%s: %d of %v, want %d", what, got, test.sizes, test.want)
		}
	}
}

// smallVolume is a directory that has space for so many bytes.
type smallVolume struct {
	dir      string
	capacity int64
	// others is what somebody else has written to it.
	others int64
	fails  error
	// late has a volume take all that is written, and find out that it is full when that is synced.
	late  bool
	files int
}

func (v *smallVolume) create(dir, pattern string) (snapshotFile, error) {
	v.files++
	file, err := os.CreateTemp(dir, pattern)
	return &fileOfSmallVolume{file, v}, err
}

// free returns what is free, or how much too much has been written.
func (v *smallVolume) free() int64 {
	files, _ := os.ReadDir(v.dir)
	free := v.capacity - v.others
	for _, file := range files {
		if info, err := file.Info(); err == nil {
			free -= info.Size()
		}
	}
	return free
}

type fileOfSmallVolume struct {
	*os.File
	volume *smallVolume
}

func (f *fileOfSmallVolume) Write(p []byte) (int, error) {
	if free := max(0, f.volume.free()); int64(len(p)) > free && !f.volume.late {
		n, _ := f.File.Write(p[:free])
		return n, &os.PathError{Op: "write", Path: f.Name(), Err: f.volume.fails}
	}
	return f.File.Write(p)
}

func (f *fileOfSmallVolume) Sync() error {
	if f.volume.free() < 0 {
		return &os.PathError{Op: "sync", Path: f.Name(), Err: f.volume.fails}
	}
	return nil
}

// saveTo saves a snapshot of so many bytes on a volume as the CronJob does, and returns the sizes of those that are there afterwards,
// the oldest first.
func saveTo(t *testing.T, v *smallVolume, size int64, etcdErr error) (sizes []int64, says string, err error) {
	t.Helper()
	var progress bytes.Buffer
	s := &snapshotSave{directory: v.dir, keep: 48, progress: &progress, create: v.create}
	s.write = func(_ context.Context, out io.Writer) (int64, error) {
		if etcdErr != nil {
			return 0, etcdErr
		}
		written, err := io.Copy(out, bytes.NewReader(make([]byte, size)))
		if err != nil {
			return size, fmt.Errorf("saving a snapshot of etcd: %w", err)
		}
		return written, nil
	}
	err = s.saveAndPrune(t.Context())
	files, readErr := os.ReadDir(v.dir)
	if readErr != nil {
		t.Fatal(readErr)
	}
	for _, file := range files {
		if !strings.HasSuffix(file.Name(), snapshotSuffix) {
			t.Errorf("left behind: %s", file.Name())
		}
		info, err := file.Info()
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, info.Size())
	}
	return sizes, progress.String(), err
}

// TestSnapshotsOnFullVolume checks that there is a newer snapshot although the volume is full of older ones, that no more of
// these are deleted than necessary, and none if that is in vain.
func TestSnapshotsOnFullVolume(t *testing.T) {
	full := smallVolume{capacity: 1000, fails: syscall.ENOSPC}
	for what, test := range map[string]struct {
		volume   smallVolume
		before   []int64
		snapshot int64
		etcdErr  error
		want     []int64
		says     string
	}{
		"there is space":            {full, []int64{100, 101}, 102, nil, []int64{100, 101, 102}, ""},
		"full of snapshots":         {full, []int64{300, 301, 302}, 303, nil, []int64{301, 302, 303}, ""},
		"full when synced":          {smallVolume{capacity: 1000, fails: syscall.ENOSPC, late: true}, []int64{300, 310, 302}, 305, nil, []int64{302, 305}, ""},
		"at the quota of the user":  {smallVolume{capacity: 1000, fails: syscall.EDQUOT}, []int64{300, 301, 302}, 303, nil, []int64{301, 302, 303}, ""},
		"etcd has grown":            {full, []int64{200, 201, 202, 203, 194}, 500, nil, []int64{203, 194, 500}, ""},
		"space for two":             {full, []int64{450, 451}, 452, nil, []int64{451, 452}, ""},
		"space for the latest only": {full, []int64{600}, 601, nil, []int64{600}, "enlarge it"},
		"full of something else":    {smallVolume{capacity: 1000, others: 979, fails: syscall.ENOSPC}, []int64{10, 11}, 12, nil, []int64{10, 11}, "enlarge it"},
		"partly full of something":  {smallVolume{capacity: 1000, others: 967, fails: syscall.ENOSPC}, []int64{10, 11, 12}, 13, nil, []int64{12, 13}, ""},
		"a broken disk":             {smallVolume{capacity: 1000, fails: syscall.EIO}, []int64{300, 301, 302}, 303, nil, []int64{300, 301, 302}, "input/output error"},
		"etcd's own disk is full":   {full, []int64{300, 301, 302}, 303, syscall.ENOSPC, []int64{300, 301, 302}, "no space left"},
	} {
		t.Run(what, func(t *testing.T) {
			v := test.volume
			v.dir = t.TempDir()
			for i, size := range test.before {
				name := fmt.Sprintf("%s20260101T%02d1700.000Z%s", snapshotPrefix, i, snapshotSuffix)
				if err := os.WriteFile(filepath.Join(v.dir, name), make([]byte, size), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			sizes, says, err := saveTo(t, &v, test.snapshot, test.etcdErr)
			if !slices.Equal(sizes, test.want) {
				t.Errorf("there are snapshots of %v bytes, want %v (%v)", sizes, test.want, err)
			}
			if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("saved: %v, want %q", err, test.says)
			}
			deleted := len(test.before) + 1 - len(sizes)
			if err != nil {
				deleted = 0
			}
			if got := strings.Count(says, "deleted "+snapshotPrefix); got != deleted {
				t.Errorf("it says of %d snapshots that they were deleted, want %d: %s", got, deleted, says)
			}
			if v.files > 2 {
				t.Errorf("etcd was asked for %d snapshots", v.files)
			}
		})
	}
}
