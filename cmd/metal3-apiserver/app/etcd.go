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

// maxSocketPath is the longest path that a unix socket can have on Linux.
const maxSocketPath = 107

// embeddedEtcd is an etcd member inside this process, for a single replica. It
// listens on a unix socket in its data directory, which nobody but this user can
// enter, and syncs to disk.
type embeddedEtcd struct {
	etcd     *embed.Etcd
	lock     *os.File
	logLevel zap.AtomicLevel
	// Endpoint is where its client API listens.
	Endpoint string
}

// startEmbeddedEtcd starts etcd on dir and returns once it serves. It logs from level on.
func startEmbeddedEtcd(ctx context.Context, dir string, level zapcore.Level) (_ *embeddedEtcd, err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("--data-dir: %w", err)
	}
	// etcd itself would wait for its lock for ever, and deaf to signals.
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
	client, err := socketURL(dir, "etcd.sock")
	if err != nil {
		return nil, err
	}
	peer, err := socketURL(dir, "peer.sock")
	if err != nil {
		return nil, err
	}
	cfg := embed.NewConfig()
	cfg.Name = "metal3-apiserver"
	cfg.Dir = filepath.Join(dir, "etcd")
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	// A single member has no peers to listen for. (At the end etcd would remove the
	// file of that socket, which has none, from the working directory; where that is
	// read-only, it would hang.)
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = nil, []url.URL{*peer}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	logLevel := zap.NewAtomicLevelAt(level)
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(etcdLogger(logLevel))

	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, fmt.Errorf("embedded etcd on %s: %w", dir, err)
	}
	select {
	case <-etcd.Server.ReadyNotify():
		started = true
		return &embeddedEtcd{etcd: etcd, lock: lock, logLevel: logLevel, Endpoint: client.String()}, nil
	case err = <-etcd.Err():
	case <-ctx.Done():
		err = ctx.Err()
	case <-time.After(etcdStartTimeout):
		err = fmt.Errorf("not ready within %s", etcdStartTimeout)
	}
	etcd.Close()
	return nil, fmt.Errorf("embedded etcd on %s: %w", dir, err)
}

// Close stops etcd. Its clients must have stopped before.
func (e *embeddedEtcd) Close() {
	e.logLevel.SetLevel(zapcore.FatalLevel) // it calls the end of its listeners an error
	e.etcd.Close()
	_ = e.lock.Close() // and so unlocks it
}

// Err tells of etcd failing while it runs.
func (e *embeddedEtcd) Err() <-chan error { return e.etcd.Err() }

// lockDir takes the data directory for this process, or says at once who has it.
func lockDir(dir string) (*os.File, error) {
	path := filepath.Join(dir, "lock")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
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
		klog.ErrorS(err, "The process ID could not be noted in the lock", "file", path)
	}
	return file, nil
}

// socketURL is the URL of a unix socket in dir.
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
