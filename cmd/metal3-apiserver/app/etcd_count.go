// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"path"
	"strconv"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// etcdCounter is a count of the leader in the server's etcd, under a key of its own.
type etcdCounter struct {
	client *clientv3.Client
	key    string
}

// newEtcdCounter returns the counter with a name in the etcd of a client, whose keys begin with prefix.
func newEtcdCounter(client *clientv3.Client, prefix, name string) *etcdCounter {
	return &etcdCounter{client, path.Join("/", prefix, "metal3-apiserver", name)}
}

// Get implements manager.Counter.
func (c *etcdCounter) Get(ctx context.Context) (int64, error) {
	answer, err := c.client.Get(ctx, c.key)
	if err != nil || len(answer.Kvs) == 0 {
		return 0, err
	}
	return strconv.ParseInt(string(answer.Kvs[0].Value), 10, 64)
}

// Set implements manager.Counter.
func (c *etcdCounter) Set(ctx context.Context, previous, count int64) error {
	unchanged := clientv3.Compare(clientv3.Value(c.key), "=", strconv.FormatInt(previous, 10))
	if previous == 0 {
		unchanged = clientv3.Compare(clientv3.CreateRevision(c.key), "=", 0)
	}
	answer, err := c.client.Txn(ctx).If(unchanged).Then(clientv3.OpPut(c.key, strconv.FormatInt(count, 10))).Commit()
	if err == nil && !answer.Succeeded {
		err = errors.New("another process has counted meanwhile")
	}
	return err
}
