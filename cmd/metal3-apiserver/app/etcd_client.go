// SPDX-License-Identifier: Apache-2.0

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
	"google.golang.org/grpc/backoff"
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
	// An attempt to connect outlasts the limit: otherwise its end would look like a refusal of a server that is only silent.
	patient := grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: 2 * etcdAnswerTimeout})
	client, err := newEtcdClient(config.Transport, patient)
	if err != nil {
		return fail(err)
	}
	defer func() { _ = client.Close() }()
	// The methods of client are not used, because they retry until ctx ends and then only report
	// that.
	kv := etcdserverpb.NewKVClient(client.ActiveConnection())
	key := []byte(path.Join("/", config.Prefix, "health"))
	refusal := fmt.Errorf("no answer within %s", etcdAnswerTimeout)
	err = wait.PollUntilContextTimeout(ctx, time.Second, etcdAnswerTimeout, true, func(ctx context.Context) (bool, error) {
		_, err := kv.Range(ctx, &etcdserverpb.RangeRequest{Key: key})
		if err != nil && ctx.Err() == nil { // an attempt that was cut off at the time limit says nothing
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

func newEtcdClient(config storagebackend.TransportConfig, more ...grpc.DialOption) (*clientv3.Client, error) {
	options := clientv3.Config{
		Endpoints: config.ServerList, Logger: zap.NewNop(),
		DialKeepAliveTime: etcdKeepalive, DialKeepAliveTimeout: etcdKeepalive,
		DialOptions: append([]grpc.DialOption{quickReconnect()}, more...),
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
