// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/klog/v2"
)

const etcdStartTimeout = 30 * time.Second

const (
	// embeddedName is the name of the member of an embedded etcd.
	embeddedName = "metal3-apiserver"
	// embeddedDir is the directory with the data of etcd in --data-dir.
	embeddedDir = "etcd"
	// peerSocket is the name of the socket that an embedded etcd has for other members, of which there are none.
	peerSocket = "peer.sock"
)

// maxSocketPath is the maximum length of the path of a unix socket on Linux, in bytes.
const maxSocketPath = 107

// embeddedEtcd is an etcd member inside this process, for a single replica. It syncs to disk, and
// listens on a unix socket in its data directory, which only the current user can access.
type embeddedEtcd struct {
	etcd     *embed.Etcd
	lock     *os.File
	logLevel zap.AtomicLevel
	disk     *diskReserve
	// Endpoint is the URL of its client API.
	Endpoint string
}

// startEmbeddedEtcd starts etcd with its data in dir, and returns when it serves requests. Its
// database can have up to quota bytes. etcd logs messages of the given level and above.
func startEmbeddedEtcd(ctx context.Context, dir string, quota int64, level zapcore.Level) (_ *embeddedEtcd, err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("--data-dir: %w", err)
	}
	if err := makePrivate(dir); err != nil {
		return nil, err
	}
	// etcd itself would wait for its own lock for ever and ignore signals.
	lock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	started := false
	defer func() {
		if !started {
			_ = lock.Close()
		}
	}()
	disk := &diskReserve{dir}
	disk.keep() // if the disk is full, this makes space for the start
	logLevel := zap.NewAtomicLevelAt(level)
	cfg, err := embeddedConfig(dir, quota, logLevel)
	if err != nil {
		return nil, err
	}
	if disk.hasSpaceToDefragment() {
		// The file of the database does not shrink by itself, and all of it is mapped into memory. etcd
		// defragments it at the start if this much of it is unused.
		cfg.BootstrapDefragThresholdMegabytes = 64
	}
	endpoint := cfg.AdvertiseClientUrls[0].String()
	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, fmt.Errorf("embedded etcd on %s: %w", dir, err)
	}
	select {
	case <-etcd.Server.ReadyNotify():
		started = true
		return &embeddedEtcd{etcd: etcd, lock: lock, logLevel: logLevel, disk: disk, Endpoint: endpoint}, nil
	case err = <-etcd.Err():
	case <-ctx.Done():
		err = ctx.Err()
	case <-time.After(etcdStartTimeout):
		err = fmt.Errorf("not ready within %s", etcdStartTimeout)
	}
	etcd.Close()
	return nil, fmt.Errorf("embedded etcd on %s: %w", dir, err)
}

// embeddedConfig returns the configuration of the embedded etcd, which listens on sockets in dir only.
func embeddedConfig(dir string, quota int64, logLevel zap.AtomicLevel) (*embed.Config, error) {
	client, err := socketURL(dir, "etcd.sock")
	if err != nil {
		return nil, err
	}
	peer, err := socketURL(dir, peerSocket)
	if err != nil {
		return nil, err
	}
	cfg := embed.NewConfig()
	cfg.Name = embeddedName
	cfg.Dir = filepath.Join(dir, embeddedDir)
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	// A single member does not need to listen for peers. (When it shuts down, etcd would try to
	// remove a file for the peer socket from the working directory, and would hang if that
	// directory is read-only.)
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = nil, []url.URL{*peer}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.QuotaBackendBytes = quota
	// etcd keeps the latest writes in memory for members that have fallen behind: up to 15,000 by
	// default, which with large objects is more memory than the whole server may use.
	cfg.SnapshotCount, cfg.SnapshotCatchUpEntries = 200, 10
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(etcdLogger(logLevel))
	return cfg, nil
}

// Close stops etcd. Its clients must already have stopped.
func (e *embeddedEtcd) Close() {
	e.logLevel.SetLevel(zapcore.FatalLevel) // etcd logs an error when its listeners are closed
	e.etcd.Close()
	_ = e.lock.Close() // this releases the lock
}

// Err returns a channel that receives an error if etcd fails while it is running.
func (e *embeddedEtcd) Err() <-chan error { return e.etcd.Err() }

// makePrivate makes sure that only the current user can access the data directory: whoever can write
// there can change all hosts, and whoever can reach the sockets needs no credentials. Permissions that
// are too open, such as those that an fsGroup leaves, are removed.
func makePrivate(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("--data-dir: %w", err)
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); ok && int(owner.Uid) != os.Geteuid() {
		return fmt.Errorf("--data-dir %s belongs to the user with the ID %d, who could change all hosts: it must belong to the user that this process runs as, %d", dir, owner.Uid, os.Geteuid())
	}
	if info.Mode().Perm()&0o077 == 0 {
		return nil
	}
	klog.ErrorS(nil, "The data directory was open to other users, and is made private", "directory", dir, "permissions", info.Mode().Perm().String())
	if err := os.Chmod(dir, 0o700); err != nil {
		return fmt.Errorf("--data-dir %s is open to other users (%s): %w", dir, info.Mode().Perm(), err)
	}
	return nil
}

// lockDir locks the data directory for this process. If another process has locked it, lockDir
// returns at once with an error that names that process.
func lockDir(dir string) (*os.File, error) {
	path := filepath.Join(dir, "lock")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("--data-dir: %w", err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		owner := make([]byte, 32)
		n, _ := file.Read(owner)
		_ = file.Close()
		return nil, fmt.Errorf("--data-dir %s is in use by another process (pid %s): stop it, or choose another directory", dir, owner[:n])
	}
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("--data-dir: locking %s: %w", path, err)
	}
	if err = file.Truncate(0); err == nil {
		_, err = fmt.Fprint(file, os.Getpid())
	}
	if err != nil {
		klog.ErrorS(err, "The process ID could not be written to the lock file", "file", path)
	}
	return file, nil
}

// socketURL returns the URL of a unix socket in dir.
func socketURL(dir, name string) (*url.URL, error) {
	path := filepath.Join(dir, name)
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("--data-dir %s is too long: a unix socket in it would have a path of %d bytes, the limit is %d", dir, len(path), maxSocketPath)
	}
	return &url.URL{Scheme: "unix", Path: path}, nil
}

func etcdLogger(level zap.AtomicLevel) *zap.Logger {
	config := zap.NewProductionConfig()
	config.Level = level
	config.DisableStacktrace = true
	logger, err := config.Build()
	if err != nil {
		return zap.NewNop()
	}
	return logger.Named("etcd")
}
