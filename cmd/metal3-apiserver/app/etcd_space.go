// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
)

// The embedded etcd refuses writes when its file has reached the quota. Every version of an object
// takes space until it is compacted, which k8s.io/apiserver does every five minutes and keeping the
// last five: a client that writes a megabyte as often as it can gets to several gigabytes before
// that. And a file never shrinks by itself, and etcd compares the size of the file with the quota,
// whether it is in use or not. So this server compacts and defragments earlier if it has to.
const (
	// defaultEtcdQuota is what etcd recommends at most for ordinary disks, halved: while it is
	// defragmented, there are two files. It is twice as much as 1,400 versions of a 1.5 MiB
	// object take.
	defaultEtcdQuota = 4 << 30
	// minEtcdQuota has room for the largest objects of all kinds, a few times each.
	minEtcdQuota = 32 << 20
	// etcdSpaceInterval is how often the size is looked at. Half of the default quota cannot be
	// written in that time.
	etcdSpaceInterval = 5 * time.Second
	// defragmentTimeout limits a defragmentation, which takes some seconds for each gigabyte that
	// is in use.
	defragmentTimeout = 2 * time.Minute
)

// etcdSpace watches whether etcd has space for writes, and makes space in the embedded etcd.
type etcdSpace struct {
	client   *clientv3.Client
	endpoint string
	// quota is the quota of the embedded etcd, in bytes. It is 0 for an external etcd, which the server
	// only watches. ("metal3-apiserver etcd maintain" has that of a member here.)
	quota int64
	// disk is the space on the disk of the embedded etcd. It is nil for an external one.
	disk *diskReserve

	full     atomic.Bool
	diskFull atomic.Bool
	size     atomic.Int64
	// kept is the size of the file after it was last defragmented, or when that would not have helped, in bytes.
	kept int64
	// inVain is set if the last check has removed the history and found nothing to defragment.
	inVain bool
}

// watch checks the space until ctx ends.
func (s *etcdSpace) watch(ctx context.Context) {
	var checks sync.WaitGroup
	if s.disk != nil {
		checks.Go(func() { wait.UntilWithContext(ctx, s.checkDisk, diskInterval) })
	}
	checks.Go(func() { wait.UntilWithContext(ctx, s.check, etcdSpaceInterval) })
	checks.Wait()
}

// hasSpace returns an error while etcd refuses writes.
func (s *etcdSpace) hasSpace() error {
	switch {
	case !s.full.Load():
		return nil
	case s.diskFull.Load():
		return fmt.Errorf("the disk of the embedded etcd is full, and writes are refused (alarm NOSPACE): %w", s.disk.tooSmall())
	case s.quota == 0:
		return fmt.Errorf("etcd is full and refuses writes (alarm NOSPACE): compact and defragment it, and disarm the alarm (with etcd 3.6 or later, metal3-apiserver etcd maintain does; before, use etcdctl)")
	}
	return fmt.Errorf("the embedded etcd is full and refuses writes (alarm NOSPACE): its quota is %d bytes, see --data-dir-quota-bytes", s.quota)
}

// check finds out whether etcd is full, and makes space in the embedded etcd if needed. While etcd
// does not answer, what was known before remains.
func (s *etcdSpace) check(ctx context.Context) {
	full, err := s.isFull(ctx)
	if err == nil {
		s.setFull(full)
		if s.quota > 0 {
			err = s.makeSpace(ctx, full)
		}
	}
	if err != nil && ctx.Err() == nil {
		klog.ErrorS(err, "The space of etcd could not be checked or freed", "endpoint", s.endpoint)
	}
}

func (s *etcdSpace) setFull(full bool) {
	if was := s.full.Swap(full); full && !was {
		klog.ErrorS(s.hasSpace(), "Reads are served, writes are refused", "endpoint", s.endpoint)
	} else if was && !full {
		klog.InfoS("etcd has space again, writes are accepted", "endpoint", s.endpoint)
	}
}

func (s *etcdSpace) isFull(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, etcdAnswerTimeout)
	defer cancel()
	alarms, err := s.client.AlarmList(ctx)
	if err != nil {
		return false, err
	}
	for _, alarm := range alarms.Alarms {
		if alarm.Alarm == etcdserverpb.AlarmType_NOSPACE {
			return true, nil
		}
	}
	return false, nil
}

// makeSpace removes the history of an etcd with a quota if the file is too large, and returns what is
// unused to the disk. If the alarm is active and there is space then, makeSpace ends the alarm.
func (s *etcdSpace) makeSpace(ctx context.Context, alarm bool) error {
	ctx, cancel := context.WithTimeout(ctx, defragmentTimeout)
	defer cancel()
	if s.diskFull.Load() {
		return nil // all of this needs space itself
	}
	status, err := s.status(ctx)
	// A file that is large because of the objects that are in it is left alone until it has grown.
	if err != nil || !alarm && status.DbSize <= max(s.quota/2, s.kept+s.quota/8) {
		s.inVain = false
		return err
	}
	// The compaction of k8s.io/apiserver would fail after the alarm: it first writes a key.
	if _, err := s.client.Compact(ctx, status.Header.Revision, clientv3.WithCompactPhysical()); err == nil {
		klog.InfoS("The history of etcd was removed early: clients with an older resourceVersion have to list again", "endpoint", s.endpoint, "bytes", status.DbSize, "quota", s.quota)
	} else if !errors.Is(err, rpctypes.ErrCompacted) {
		return fmt.Errorf("compacting: %w", err)
	}
	if status, err = s.status(ctx); err != nil {
		return err
	}
	switch unused := status.DbSize - status.DbSizeInUse; {
	case unused > s.quota/10 && s.hasSpaceFor(status.DbSizeInUse):
		klog.InfoS("Defragmenting etcd, which answers no requests meanwhile", "endpoint", s.endpoint, "bytes", status.DbSize, "unused", unused, "quota", s.quota)
		if _, err := s.client.Defragment(ctx, s.endpoint); err != nil {
			return fmt.Errorf("defragmenting: %w", err)
		}
		if status, err = s.status(ctx); err != nil {
			return err
		}
		s.kept, s.inVain = status.DbSize, false
	case s.inVain: // the objects themselves take the space, or the disk has none: clients need not lose the history every few seconds
		s.kept, s.inVain = status.DbSize, false
	default:
		s.inVain = true // a moment may pass until what was removed counts as unused, which the next check finds
	}
	if !alarm || status.DbSize > s.quota/10*9 {
		return nil
	}
	if err := s.endAlarms(ctx); err != nil {
		return fmt.Errorf("ending the alarm: %w", err)
	}
	s.setFull(false)
	return nil
}

// endAlarms ends the alarms NOSPACE of all members. Without their names, an alarm CORRUPT would be ended as well.
func (s *etcdSpace) endAlarms(ctx context.Context) error {
	alarms, err := s.client.AlarmList(ctx)
	if err != nil {
		return err
	}
	for _, alarm := range alarms.Alarms {
		if alarm.Alarm != etcdserverpb.AlarmType_NOSPACE {
			continue
		}
		if _, err := s.client.AlarmDisarm(ctx, &clientv3.AlarmMember{MemberID: alarm.MemberID, Alarm: alarm.Alarm}); err != nil {
			return err
		}
	}
	return nil
}

// hasSpaceFor reports whether the disk has space for a second file of so many bytes, which a
// defragmentation makes.
func (s *etcdSpace) hasSpaceFor(bytes int64) bool {
	if s.disk == nil {
		return true
	}
	free, err := s.disk.free()
	if err == nil && free >= bytes+minFreeDisk {
		return true
	}
	klog.ErrorS(err, "The embedded etcd is not defragmented: its disk has no space for a second file", "free", free, "needed", bytes+minFreeDisk)
	return false
}

// checkDisk has etcd refuse writes while its disk is full. The alarm is ended by makeSpace.
func (s *etcdSpace) checkDisk(ctx context.Context) {
	full := !s.disk.keep()
	// makeSpace may just have ended an alarm of its own, and with it this one.
	if !full || s.diskFull.Load() && s.full.Load() {
		s.diskFull.Store(full)
		return
	}
	if err := s.raiseAlarm(ctx); err != nil {
		if ctx.Err() == nil {
			klog.ErrorS(err, "The disk of the embedded etcd is full, but writes could not be stopped. The process ends if etcd cannot write", "directory", s.disk.dir)
		}
		return // and tried again
	}
	s.diskFull.Store(true)
	s.setFull(true)
}

// raiseAlarm makes etcd refuse writes until the alarm is ended.
func (s *etcdSpace) raiseAlarm(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, etcdAnswerTimeout)
	defer cancel()
	status, err := s.client.Status(ctx, s.endpoint)
	if err != nil {
		return err
	}
	_, err = etcdserverpb.NewMaintenanceClient(s.client.ActiveConnection()).Alarm(ctx, &etcdserverpb.AlarmRequest{
		Action: etcdserverpb.AlarmRequest_ACTIVATE, MemberID: status.Header.MemberId, Alarm: etcdserverpb.AlarmType_NOSPACE,
	})
	return err
}

func (s *etcdSpace) status(ctx context.Context) (*clientv3.StatusResponse, error) {
	status, err := s.client.Status(ctx, s.endpoint)
	if err == nil {
		s.size.Store(status.DbSize)
	}
	return status, err
}
