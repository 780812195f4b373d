package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/server/egressselector"
	"k8s.io/apiserver/pkg/storage/storagebackend"
)

// etcdAnswerTimeout is how long etcd may take to answer.
const etcdAnswerTimeout = 5 * time.Second

// reachEtcd returns an error that says why etcd does not answer, or nil if it does. The client of
// k8s.io/apiserver only says after 20 seconds that etcd was not ready, and the reason is in gRPC's
// log, once for each attempt to connect.
func reachEtcd(ctx context.Context, config storagebackend.Config) error {
	servers := config.Transport.ServerList
	fail := func(err error) error { return fmt.Errorf("etcd at %s: %w", strings.Join(servers, ", "), err) }
	client, err := newEtcdClient(config.Transport)
	if err != nil {
		return fail(err)
	}
	defer func() { _ = client.Close() }()
	// The methods of client are not used, because they retry until ctx ends and then only report
	// that.
	kv := etcdserverpb.NewKVClient(client.ActiveConnection())
	key := []byte(path.Join("/", config.Prefix, "health"))
	var refusal error
	err = wait.PollUntilContextTimeout(ctx, time.Second, etcdAnswerTimeout, true, func(ctx context.Context) (bool, error) {
		_, err := kv.Range(ctx, &etcdserverpb.RangeRequest{Key: key})
		// The error of an attempt that was cut off at the time limit is less informative than the
		// last error before it.
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

// etcdKeepalive is how long a connection may be silent before etcd is asked whether it is still there, and how long
// the answer may take.
const etcdKeepalive = 10 * time.Second

func newEtcdClient(config storagebackend.TransportConfig) (*clientv3.Client, error) {
	options := clientv3.Config{
		Endpoints: config.ServerList, Logger: zap.NewNop(),
		DialKeepAliveTime: etcdKeepalive, DialKeepAliveTimeout: etcdKeepalive,
		DialOptions: []grpc.DialOption{quickReconnect()},
	}
	if config.EgressLookup != nil {
		dial, err := config.EgressLookup(egressselector.Etcd.AsNetworkContext())
		if err != nil {
			return nil, err
		}
		options.DialOptions = append(options.DialOptions, grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return dial(ctx, "tcp", address)
		}))
	}
	if config.CertFile != "" || config.KeyFile != "" || config.TrustedCAFile != "" {
		files := transport.TLSInfo{CertFile: config.CertFile, KeyFile: config.KeyFile, TrustedCAFile: config.TrustedCAFile}
		var err error
		if options.TLS, err = files.ClientConfig(); err != nil {
			return nil, err
		}
	}
	return clientv3.New(options)
}
