// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap/zapcore"
	"k8s.io/apiserver/pkg/storage/storagebackend"
)

// etcdBackend is the server's etcd, which is external or embedded.
type etcdBackend struct {
	// storage is how the generic server's stores connect to it.
	storage storagebackend.Config
	// client is for what is not an object: claims, the count, and the space.
	client *clientv3.Client
	space  *etcdSpace

	embedded *embeddedEtcd // nil if it is external
	stop     context.CancelFunc
	running  sync.WaitGroup
}

// openEtcd connects to the etcd of the options, or starts the embedded one, and watches its space until ctx
// ends. If the embedded one fails, fail is called with the error.
func openEtcd(ctx context.Context, o *Options, fail context.CancelCauseFunc) (*etcdBackend, error) {
	e := &etcdBackend{storage: o.Recommended.Etcd.StorageConfig}
	var quota int64 // of the embedded etcd
	var disk *diskReserve
	if len(e.storage.Transport.ServerList) == 0 {
		quota = o.DataDirQuota
		var err error
		if e.embedded, err = startEmbeddedEtcd(ctx, o.DataDir, quota, zapcore.WarnLevel); err != nil {
			return nil, err
		}
		disk = e.embedded.disk
		e.storage.Transport.ServerList = []string{e.embedded.Endpoint}
	}
	lines, err := newEtcdLines(&e.storage)
	if err != nil {
		return nil, err // of an external etcd only
	}
	if e.client, err = newEtcdClient(e.storage.Transport); err != nil {
		if e.embedded != nil {
			e.embedded.Close()
		}
		if lines != nil {
			lines.close()
		}
		return nil, err
	}
	e.space = &etcdSpace{client: e.client, endpoint: e.storage.Transport.ServerList[0], quota: quota, disk: disk}
	ctx, e.stop = context.WithCancel(ctx)
	e.running.Go(func() { e.space.watch(ctx) })
	if lines != nil {
		e.running.Go(func() { lines.watch(ctx) })
	}
	if e.embedded != nil {
		e.running.Go(func() {
			select {
			case err := <-e.embedded.Err():
				fail(fmt.Errorf("embedded etcd: %w", err))
			case <-ctx.Done():
			}
		})
	}
	return e, nil
}

// Close closes the client, and stops the embedded etcd. Everything that uses etcd must have stopped.
func (e *etcdBackend) Close() {
	e.stop()
	e.running.Wait()
	_ = e.client.Close()
	if e.embedded != nil {
		e.embedded.Close()
	}
}
