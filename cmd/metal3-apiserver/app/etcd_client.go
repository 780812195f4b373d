package app

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/storage/storagebackend"
)

// etcdAnswerTimeout is how long an etcd may take to come within reach.
const etcdAnswerTimeout = 5 * time.Second

// reachEtcd returns why etcd does not answer, nil if it does. The client of
// k8s.io/apiserver says after 20 seconds only that it was not ready; the reason is in
// gRPC's log, once for each attempt to connect.
func reachEtcd(ctx context.Context, config storagebackend.Config) error {
	servers := config.Transport.ServerList
	fail := func(err error) error { return fmt.Errorf("etcd at %s: %w", strings.Join(servers, ", "), err) }
	client, err := newEtcdClient(config.Transport)
	if err != nil {
		return fail(err)
	}
	defer func() { _ = client.Close() }()
	// Not by the methods of client, which try again until ctx ends, and say that it has.
	kv := etcdserverpb.NewKVClient(client.ActiveConnection())
	key := []byte(path.Join("/", config.Prefix, "health"))
	var refusal error
	err = wait.PollUntilContextTimeout(ctx, time.Second, etcdAnswerTimeout, true, func(ctx context.Context) (bool, error) {
		_, err := kv.Range(ctx, &etcdserverpb.RangeRequest{Key: key})
		// After the time is over, the last refusal says more than this one.
		if err != nil && (refusal == nil || ctx.Err() == nil) {
			refusal = errors.New(status.Convert(err).Message())
		}
		return err == nil, nil
	})
	if err != nil {
		return fail(refusal)
	}
	return nil
}

func newEtcdClient(config storagebackend.TransportConfig) (*clientv3.Client, error) {
	options := clientv3.Config{Endpoints: config.ServerList, Logger: zap.NewNop()}
	if config.CertFile != "" || config.KeyFile != "" || config.TrustedCAFile != "" {
		files := transport.TLSInfo{CertFile: config.CertFile, KeyFile: config.KeyFile, TrustedCAFile: config.TrustedCAFile}
		var err error
		if options.TLS, err = files.ClientConfig(); err != nil {
			return nil, err
		}
	}
	return clientv3.New(options)
}
