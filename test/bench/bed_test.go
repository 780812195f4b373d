// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/metal3-io/metal3-apiserver/pkg/generated/clientset/versioned"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/client"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

const namespace = "bench"

// bedKind is what distinguishes one bed from another.
type bedKind struct {
	hosts int
	// realIronic asks for one from Debian packages; else it is the simulator.
	realIronic bool
	// perNode is what the simulator takes for each node in a list.
	perNode time.Duration
}

// bed is an Ironic full of nodes and a server that has a host for each.
type bed struct {
	kind bedKind
	dir  string
	// sim is nil with a real Ironic.
	sim      *ironicsim.Sim
	endpoint string
	stops    []func() error
	nodes    []string // UUIDs; host i has node i
	// getNode and listNodes are requests that the server itself makes: for one node,
	// and for a short list of all.
	getNode, listNodes []ironicRequest
	// raw asks Ironic over as many connections as the server may have.
	raw *http.Client

	server *testbed.Server
	// direct is an administrator's way to the server, and user that of another user
	// through kube-apiserver, which is how everybody reads.
	direct, user *reader
	// etcd is the server's own.
	etcd *clientv3.Client
	// hostsPath is that of the hosts that are listed and watched.
	hostsPath string
	// changes counts those that were made while somebody watched.
	changes int
}

func newBed(ctx context.Context, kind bedKind) (*bed, error) {
	b := &bed{kind: kind, hostsPath: hostsPath, raw: &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		MaxConnsPerHost: client.DefaultReadConnections, MaxIdleConnsPerHost: client.DefaultReadConnections,
	}}}
	if err := b.start(ctx); err != nil {
		return nil, errors.Join(err, b.stop())
	}
	return b, nil
}

func (b *bed) start(ctx context.Context) (err error) {
	if b.dir, err = os.MkdirTemp(shared.dir, "bed-"); err != nil {
		return err
	}
	if err := b.startIronic(ctx); err != nil {
		return err
	}
	if err := b.createNodes(ctx); err != nil {
		return err
	}
	b.getNode, err = recordRequests(b.endpoint, func(c *client.Client) error {
		_, err := c.GetNode(ctx, b.nodes[0])
		return err
	})
	if err != nil {
		return err
	}
	b.listNodes, err = recordRequests(b.endpoint, func(c *client.Client) error {
		nodes, err := c.ListNodes(ctx)
		if err == nil && len(nodes) != len(b.nodes) {
			err = fmt.Errorf("Ironic lists %d nodes, want %d", len(nodes), len(b.nodes))
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := b.startServer(ctx, strings.Fields(*serverArgs)...); err != nil {
		return err
	}
	if err := b.createHosts(ctx); err != nil {
		return err
	}
	err = b.waitQuiet(ctx)
	if b.sim != nil {
		b.sim.SetFaults(ironicsim.Faults{LatencyPerNode: b.kind.perNode})
	}
	return err
}

func (b *bed) startIronic(ctx context.Context) error {
	if b.kind.realIronic {
		i, err := testbed.StartDebianIronic(ctx, testbed.IronicOptions{Release: *release, Dir: b.dir, ExtraConf: "[conductor]\n" + rarely})
		if err != nil {
			return err
		}
		b.stops = append(b.stops, i.Close)
		b.endpoint = i.Endpoint
		return nil
	}
	// What its conductor does by itself would be heard here.
	b.sim = ironicsim.New(ironicsim.Options{PowerSyncInterval: -1, PowerRecoveryInterval: -1})
	b.stops = append(b.stops, func() error { b.sim.Close(); return nil })
	if err := b.sim.Start(0); err != nil {
		return err
	}
	b.endpoint = b.sim.URL()
	return nil
}

func (b *bed) createNodes(ctx context.Context) error {
	operator := &testbed.Operator{Endpoint: b.endpoint}
	b.nodes = make([]string, b.kind.hosts)
	var group errgroup.Group
	group.SetLimit(4)
	for i := range b.nodes {
		group.Go(func() error {
			fields := map[string]any{"name": namespace + "~" + hostName(i), "driver": "fake-hardware", "driver_info": map[string]any{"ipmi_address": bmcAddress(i)}}
			if b.sim != nil {
				uuid, err := b.sim.CreateNode(fields)
				b.nodes[i] = uuid
				return err
			}
			node, err := operator.CreateNode(ctx, fields)
			b.nodes[i] = node.UUID
			return err
		})
	}
	return group.Wait()
}

func (b *bed) startServer(ctx context.Context, args ...string) (err error) {
	b.server, err = testbed.StartServer(ctx, testbed.ServerOptions{
		Kube: shared.kube, Dir: b.dir, IronicEndpoint: b.endpoint, Args: args,
	})
	if err != nil {
		return err
	}
	if b.direct, err = newReader(b.server.Direct.Config); err != nil {
		return err
	}
	if b.user, err = newReader(shared.reader.Config); err != nil {
		return err
	}
	b.etcd, err = clientv3.New(clientv3.Config{Endpoints: []string{"unix://" + filepath.Join(b.server.DataDir(), "etcd.sock")}, DialTimeout: 10 * time.Second})
	return err
}

// restart starts the server anew, and returns when all hosts are recorded as Ironic has them.
func (b *bed) restart(ctx context.Context) error {
	if _, err := b.server.Stop(); err != nil {
		return err
	}
	if err := b.server.Start(ctx); err != nil {
		return err
	}
	return b.waitQuiet(ctx)
}

func (b *bed) stop() error {
	if b.raw != nil {
		b.raw.CloseIdleConnections()
	}
	var errs []error
	if b.etcd != nil {
		b.direct.close()
		b.user.close()
		errs = append(errs, b.etcd.Close())
	}
	if b.server != nil {
		_, err := b.server.Stop()
		errs = append(errs, err)
	}
	for _, stop := range b.stops {
		errs = append(errs, stop())
	}
	return errors.Join(errs...)
}

// createHosts makes a host for each node.
func (b *bed) createHosts(ctx context.Context) error {
	clients, err := versioned.NewForConfig(b.server.Direct.Config)
	if err != nil {
		return err
	}
	hosts := clients.Metal3V1alpha1().BareMetalHosts(namespace)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(64) // etcd syncs to disk once for all that arrive together
	for i, uuid := range b.nodes {
		group.Go(func() error {
			host, err := hosts.Create(ctx, newHost(i), metav1.CreateOptions{})
			if err != nil {
				return err
			}
			host.Status = inspected(i, uuid)
			_, err = hosts.UpdateStatus(ctx, host, metav1.UpdateOptions{})
			return err
		})
	}
	return group.Wait()
}

// waitQuiet returns when all hosts are recorded as Ironic has them: a LIST is
// live, and brings about no write.
func (b *bed) waitQuiet(ctx context.Context) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 5*time.Minute, true, func(ctx context.Context) (bool, error) {
		before, err := b.revision(ctx)
		if err != nil {
			return false, err
		}
		if last = b.direct.read(ctx, b.hostsPath+"?limit=1", nil, io.Discard); last != nil {
			return false, nil
		}
		after, err := b.revision(ctx)
		return before == after, err
	})
	return errors.Join(err, last)
}

// revision is that of etcd; each write raises it.
func (b *bed) revision(ctx context.Context) (int64, error) {
	answer, err := b.etcd.Get(ctx, "revision")
	if err != nil {
		return 0, err
	}
	return answer.Header.Revision, nil
}
