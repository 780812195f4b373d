// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/generated/clientset/versioned"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/client"
)

var tunedHosts = flag.Int("tuned", 200, "how many hosts BenchmarkBIOSChange gives another BIOS setting at once")

// untuned are the hosts that are read meanwhile, and that nobody changes.
const untuned = 20

// BenchmarkBIOSChange has the same BIOS setting of many available hosts changed at once, and reads other hosts
// meanwhile. In turns with these reads, the same nodes are read past the server, because Ironic is slower for
// everybody while it cleans many nodes. It fails if Ironic is asked for the BIOS settings of a host
// that nobody changes.
func BenchmarkBIOSChange(b *testing.B) {
	ctx, cancel := context.WithTimeout(b.Context(), 30*time.Minute)
	defer cancel()
	f := startFleet(ctx, b, fleetOptions{size: *tunedHosts + untuned, counted: true, args: unlimited})
	if err := f.lead(ctx); err != nil {
		b.Fatal(err)
	}
	hosts, err := f.enrolAll(ctx)
	if err != nil {
		b.Fatal(err)
	}
	others, err := newNeighbours(f, hosts[*tunedHosts:])
	if err != nil {
		b.Fatal(err)
	}
	defer others.close()

	var quiet, busy neighbourReads
	for range 10 {
		if err := others.read(ctx, &quiet); err != nil {
			b.Fatal(err)
		}
	}
	noted, began := len(f.proxy.noted()), time.Now()
	changed := make(chan error, 1)
	go func() { changed <- f.setNumCores(ctx, 8) }()
	for done := false; !done; {
		if err := others.read(ctx, &busy); err != nil {
			b.Fatal(err)
		}
		select {
		case err := <-changed:
			if err != nil {
				b.Fatal(err)
			}
			done = true
		default:
		}
	}
	took := time.Since(began)

	lists := 0
	for _, r := range f.proxy.noted()[noted:] {
		if !strings.Contains(r.uri, "/bios") {
			continue
		}
		lists++
		for _, host := range hosts[*tunedHosts:] {
			if strings.Contains(r.uri, host.Status.Provisioning.ID) {
				b.Errorf("%s %s, of a host that nobody has changed", r.method, r.uri)
			}
		}
	}
	quietRatio, busyRatio := times(quiet.ours.median(), quiet.raw.median()), times(busy.ours.median(), busy.raw.median())
	b.Logf("%d hosts changed in %s with %d lists of BIOS settings; GET of others %s (raw %s), before that %s (raw %s)",
		*tunedHosts, text(took), lists, text(busy.ours.median()), text(busy.raw.median()), text(quiet.ours.median()), text(quiet.raw.median()))
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(took.Seconds(), "changed-s")
	b.ReportMetric(float64(lists)/float64(*tunedHosts), "bios-lists/host")
	record(figure{
		what: fmt.Sprintf("GET of others while %d hosts change a BIOS setting, Ironic of %s", *tunedHosts, *release), measured: text(busy.ours.median()),
		beside: "raw " + text(busy.raw.median()), result: busyRatio, wanted: "as without: " + quietRatio,
	})
	record(figure{
		what: fmt.Sprintf("lists of BIOS settings for each of the %d", *tunedHosts), measured: fmt.Sprintf("%.1f", float64(lists)/float64(*tunedHosts)),
		beside: fmt.Sprintf("others %d hosts", untuned), result: text(took),
	})
}

// enrolAll creates all hosts, without an image, and returns them when all are available.
func (f *fleet) enrolAll(ctx context.Context) ([]metal3.BareMetalHost, error) {
	creating, creatingCtx := errgroup.WithContext(ctx)
	for i := range f.size {
		creating.Go(func() error {
			host := f.host(i)
			host.Spec.Image, host.Spec.UserData = nil, nil
			_, err := f.hosts.Create(creatingCtx, host, metav1.CreateOptions{})
			return err
		})
	}
	if err := creating.Wait(); err != nil {
		return nil, err
	}
	return f.untilAll(ctx, func(host *metal3.BareMetalHost) bool {
		return host.Status.Provisioning.State == metal3.StateAvailable && host.Status.PoweredOn
	})
}

// untilAll lists the hosts each second until all of them have arrived. They are in the order of their names.
func (f *fleet) untilAll(ctx context.Context, arrived func(*metal3.BareMetalHost) bool) (hosts []metal3.BareMetalHost, err error) {
	missing := ""
	err = wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		list, err := f.hosts.List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		hosts = list.Items
		for i := range hosts {
			if s := hosts[i].Status; !arrived(&hosts[i]) {
				missing = fmt.Sprintf("host %s is %s %s", hosts[i].Name, s.Provisioning.State, s.ErrorMessage)
				return false, nil
			}
		}
		return len(hosts) == f.size, nil
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, missing)
	}
	return hosts, nil
}

// setNumCores changes a BIOS setting of the first hosts at once, and returns when all are available with it.
func (f *fleet) setNumCores(ctx context.Context, cores int) error {
	clients, err := versioned.NewForConfig(f.server.Direct.Config)
	if err != nil {
		return err
	}
	settings := clients.Metal3V1alpha1().HostFirmwareSettings(fleetNamespace)
	patching, patchingCtx := errgroup.WithContext(ctx)
	for i := range *tunedHosts {
		patching.Go(func() error {
			_, err := settings.Patch(patchingCtx, fleetHost(i), types.MergePatchType, fmt.Appendf(nil, `{"spec":{"settings":{"NumCores":%d}}}`, cores), metav1.PatchOptions{})
			return err
		})
	}
	if err := patching.Wait(); err != nil {
		return err
	}
	_, err = f.untilAll(ctx, func(host *metal3.BareMetalHost) bool {
		p := host.Status.Record.Preparation
		return host.Status.Provisioning.State == metal3.StateAvailable && (host.Name >= fleetHost(*tunedHosts) || p != nil && p.Phase == metal3.PreparationSucceeded)
	})
	if err != nil {
		return err
	}
	for i := range *tunedHosts {
		s, err := settings.Get(ctx, fleetHost(i), metav1.GetOptions{})
		if err != nil {
			return err
		}
		if got := s.Status.Settings["NumCores"]; got != fmt.Sprint(cores) {
			return fmt.Errorf("host %s is available with NumCores %s", s.Name, got)
		}
	}
	return nil
}

// neighbours are hosts that are read while something is done to others.
type neighbours struct {
	reader *reader
	hosts  []metal3.BareMetalHost
	// nodes are the requests for their nodes that the server itself makes.
	endpoint string
	nodes    []ironicRequest
	raw      http.Client
}

// neighbourReads are reads of hosts, and of the same nodes past the server.
type neighbourReads struct{ ours, raw samples }

func newNeighbours(f *fleet, hosts []metal3.BareMetalHost) (*neighbours, error) {
	n := &neighbours{hosts: hosts, endpoint: f.ironic.Endpoint, raw: http.Client{Timeout: time.Minute}}
	for _, host := range hosts {
		requests, err := recordRequests(f.ironic.Endpoint, func(c *client.Client) error {
			_, err := c.GetNode(context.Background(), host.Status.Provisioning.ID)
			return err
		})
		if err != nil {
			return nil, err
		}
		n.nodes = append(n.nodes, requests[0])
	}
	var err error
	n.reader, err = newReader(f.server.Direct.Config)
	return n, err
}

func (n *neighbours) close() {
	n.reader.close()
	n.raw.CloseIdleConnections()
}

// read reads each host once.
func (n *neighbours) read(ctx context.Context, into *neighbourReads) error {
	for i, host := range n.hosts {
		began := time.Now()
		if err := n.nodes[i].make(ctx, &n.raw, n.endpoint); err != nil {
			return err
		}
		into.raw = append(into.raw, time.Since(began))
		began = time.Now()
		path := "/apis/metal3.io/v1alpha1/namespaces/" + fleetNamespace + "/baremetalhosts/" + host.Name
		if err := n.reader.read(ctx, path, nil, io.Discard); err != nil {
			return err
		}
		into.ours = append(into.ours, time.Since(began))
	}
	return nil
}
