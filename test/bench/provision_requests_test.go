// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/generated/clientset/versioned"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// BenchmarkProvisionRequests counts what the server asks of Ironic on the way of one
// host from nothing to a written image.
func BenchmarkProvisionRequests(b *testing.B) {
	b.Run("simulator", func(b *testing.B) {
		ctx := b.Context()
		if err := leaveAlone(ctx); err != nil {
			b.Fatal(err)
		}
		requests, err := oneOnSimulator(ctx)
		if err != nil {
			b.Fatal(err)
		}
		reportRequests(b, "the simulator", requests)
	})
	b.Run("ironic", func(b *testing.B) {
		ctx := b.Context()
		f := startFleet(ctx, b, fleetOptions{size: 1, counted: true})
		before := len(f.proxy.noted())
		if err := f.lead(ctx); err != nil {
			b.Fatal(err)
		}
		if _, err := f.watchHosts(ctx); err != nil {
			b.Fatal(err)
		}
		reportRequests(b, "Ironic of "+*release, f.proxy.noted()[before:])
	})
}

func reportRequests(b *testing.B, where string, requests []ironicRequest) {
	own, shared := map[string]int{}, 0
	total := 0
	for _, r := range requests {
		if kind := kindOf(r); kind == "" {
			shared++
		} else {
			own[kind]++
			total++
		}
	}
	var kinds []string
	for kind, n := range own {
		kinds = append(kinds, fmt.Sprintf("%d %s", n, kind))
	}
	slices.Sort(kinds)
	slices.Reverse(kinds)
	b.Logf("%s: %s", where, strings.Join(kinds, "; ")) // in one line, because a benchmark logs ten at most
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(total), "requests")
	b.ReportMetric(float64(shared), "shared-requests")
	record(figure{
		what: "requests for one host's way, " + where, measured: fmt.Sprint(total),
		beside: fmt.Sprintf("%d that serve all hosts, %d read its node", shared, own["GET /v1/nodes/NODE"]), wanted: "18",
	})
}

var (
	uuidPattern = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	namePattern = regexp.MustCompile(`/nodes/` + fleetNamespace + `~[^/]*`)
)

// kindOf is the kind of a request that is about a host; empty for those that serve
// all of them: the feed of changes, lists, versions and drivers.
func kindOf(r ironicRequest) string {
	path, query, _ := strings.Cut(r.uri, "?")
	if r.method == "GET" && !strings.Contains(path, "/nodes/") && !strings.Contains(query, "node=") && !strings.Contains(query, "address=") {
		return ""
	}
	path = uuidPattern.ReplaceAllString(path, "NODE")
	return r.method + " " + namePattern.ReplaceAllString(path, "/nodes/NODE")
}

// oneOnSimulator takes a host through its life and returns the requests for it.
func oneOnSimulator(ctx context.Context) (_ []ironicRequest, err error) {
	const bmcAddress = "10.0.0.1"
	sim := ironicsim.New(ironicsim.Options{AutoInspect: true, AutoDeploy: true, DefaultRamdisk: true, PowerSyncInterval: -1})
	defer sim.Close()
	if err := sim.Start(0); err != nil {
		return nil, err
	}
	sim.AddBMC(bmcAddress, "admin", "password")
	proxy, err := newIronicProxy(sim.URL())
	if err != nil {
		return nil, err
	}
	defer proxy.Close()
	dir, err := os.MkdirTemp(shared.dir, "requests-")
	if err != nil {
		return nil, err
	}
	server, err := testbed.StartServer(ctx, testbed.ServerOptions{Kube: shared.kube, Dir: dir, IronicEndpoint: proxy.URL})
	if err != nil {
		return nil, err
	}
	defer func() {
		if _, stopErr := server.Stop(); err == nil {
			err = stopErr
		}
	}()
	for name, data := range map[string]map[string]string{
		"bmc": {"username": "admin", "password": "password"}, "user-data": {"userData": userData},
	} {
		if err := applySecret(ctx, name, data); err != nil {
			return nil, err
		}
	}
	client, err := versioned.NewForConfig(server.Direct.Config)
	if err != nil {
		return nil, err
	}
	hosts := client.Metal3V1alpha1().BareMetalHosts(fleetNamespace)
	events, err := hosts.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	defer events.Stop()
	before := len(proxy.noted())
	_, err = hosts.Create(ctx, &metal3.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{Name: fleetHost(0)},
		Spec: metal3.BareMetalHostSpec{
			Online: true, BootMACAddress: macAddress(0, 0),
			BMC:      metal3.BMCDetails{Address: "ipmi://" + bmcAddress, CredentialsName: "bmc"},
			Image:    &metal3.Image{URL: "http://192.0.2.1/image.raw", Checksum: strings.Repeat("a", 64), ChecksumType: metal3.SHA256, DiskFormat: ptr.To(metal3.Raw)},
			UserData: &corev1.SecretReference{Name: "user-data", Namespace: fleetNamespace},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	_, err = follow(events, time.Now(), 1)
	return proxy.noted()[before:], err
}
