package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"github.com/metal3-io/metal3-apiserver/pkg/generated/clientset/versioned"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/client"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

const namespace = "bench"

// bed is an Ironic full of nodes and a server that has a host for each.
type bed struct {
	dir string
	// sim is nil with a real Ironic.
	sim      *ironicsim.Sim
	endpoint string
	stops    []func() error
	nodes    []string // UUIDs; host i has node i
	// getNode and listNodes are the requests that the server itself makes.
	getNode, listNodes []rawRequest
	// raw asks Ironic over as many connections as the server may have.
	raw *http.Client

	server     *testbed.Server
	watchCache bool
	http       *http.Client
	// etcd is the server's own.
	etcd *clientv3.Client
	// changes counts those of BenchmarkWatch: each has a number of its own.
	changes int
}

func simulatedIronic() bool {
	release := os.Getenv("IRONIC")
	return release == "" || release == "sim"
}

func newBed(ctx context.Context, hosts int) (*bed, error) {
	b := &bed{raw: &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		MaxConnsPerHost: client.DefaultReadConnections, MaxIdleConnsPerHost: client.DefaultReadConnections,
	}}}
	err := b.start(ctx, hosts)
	if err != nil {
		return nil, errors.Join(err, b.stop())
	}
	return b, nil
}

func (b *bed) start(ctx context.Context, hosts int) (err error) {
	if b.dir, err = os.MkdirTemp(shared.dir, "bed-"); err != nil {
		return err
	}
	if err := b.startIronic(ctx); err != nil {
		return err
	}
	if err := b.createNodes(ctx, hosts); err != nil {
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
		if err == nil && len(nodes) != hosts {
			err = fmt.Errorf("Ironic lists %d nodes, want %d", len(nodes), hosts)
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := b.startServer(ctx, false); err != nil {
		return err
	}
	if err := b.createHosts(ctx); err != nil {
		return err
	}
	return b.waitQuiet(ctx)
}

func (b *bed) startIronic(ctx context.Context) error {
	if simulatedIronic() {
		// What its conductor does by itself would be heard here.
		b.sim = ironicsim.New(ironicsim.Options{PowerSyncInterval: -1, PowerRecoveryInterval: -1})
		b.stops = append(b.stops, func() error { b.sim.Close(); return nil })
		if err := b.sim.Start(0); err != nil {
			return err
		}
		b.endpoint = b.sim.URL()
		return nil
	}
	i, err := testbed.StartDebianIronic(ctx, testbed.IronicOptions{Release: os.Getenv("IRONIC"), Dir: b.dir})
	if err != nil {
		return err
	}
	b.stops = append(b.stops, i.Close)
	b.endpoint = i.Endpoint
	return nil
}

func (b *bed) createNodes(ctx context.Context, hosts int) error {
	operator := &testbed.Operator{Endpoint: b.endpoint}
	b.nodes = make([]string, hosts)
	var group errgroup.Group
	group.SetLimit(4)
	for i := range b.nodes {
		group.Go(func() error {
			fields := map[string]any{"name": namespace + "~" + hostName(i), "driver": "fake-hardware"}
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

// serve has the server run with or without the watch cache, on the same data.
func (b *bed) serve(ctx context.Context, watchCache bool) error {
	if b.server != nil && b.watchCache == watchCache {
		return nil
	}
	if err := b.stopServer(); err != nil {
		return err
	}
	if err := b.startServer(ctx, watchCache); err != nil {
		return err
	}
	return b.waitQuiet(ctx)
}

func (b *bed) startServer(ctx context.Context, watchCache bool) (err error) {
	b.watchCache = watchCache
	args := []string{fmt.Sprintf("--watch-cache=%v", watchCache)}
	if len(b.nodes) > small {
		// A LIST may take longer than readers are usually held; it shall be seen as what it takes.
		args = append(args, "--ironic-read-timeout=30s")
	}
	b.server, err = testbed.StartServer(ctx, testbed.ServerOptions{
		Kube: shared.kube, Dir: b.dir, IronicEndpoint: b.endpoint, Args: args,
	})
	if err != nil {
		return err
	}
	if b.http, err = rest.HTTPClientFor(b.server.Direct.Config); err != nil {
		return err
	}
	b.etcd, err = clientv3.New(clientv3.Config{Endpoints: []string{"unix://" + filepath.Join(b.dir, "data", "etcd.sock")}, DialTimeout: 10 * time.Second})
	return err
}

func (b *bed) stopServer() error {
	if b.server == nil {
		return nil
	}
	b.http.CloseIdleConnections()
	_, err := b.server.Stop()
	err = errors.Join(err, b.etcd.Close())
	b.server = nil
	return err
}

func (b *bed) stop() error {
	b.raw.CloseIdleConnections()
	err := b.stopServer()
	for _, stop := range b.stops {
		err = errors.Join(err, stop())
	}
	return err
}

// createHosts makes a host for each node.
func (b *bed) createHosts(ctx context.Context) error {
	config := rest.CopyConfig(b.server.Direct.Config)
	config.QPS = -1
	client, err := versioned.NewForConfig(config)
	if err != nil {
		return err
	}
	hosts := client.Metal3V1alpha1().BareMetalHosts(namespace)
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
		if last = b.list(ctx, ""); last != nil {
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
