// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"
)

var (
	rounds = flag.Int("rounds", 5, "how often BenchmarkProvision takes 20 hosts through their lives, by the server and by a client")
	// The larger fleets take Ironic minutes of its time.
	manyHosts  = flag.Int("many", 0, "how many hosts BenchmarkProvisionMany takes through their lives, by the server and by a client; 200, for instance")
	aloneHosts = flag.Int("alone", 0, "how many hosts BenchmarkProvisionAlone takes through their lives, by the server alone; 1000, for instance")
)

// unlimited has the server, like the client, leave it to Ironic how many it works on.
var unlimited = []string{"--provisioning-limit=0"}

// BenchmarkProvision takes 20 hosts, as many as --provisioning-limit lets be at work
// at a time, from nothing to a written image: enrolled, inspected, cleaned, deployed,
// on a real Ironic with simulated machines. In turns that is done by the server and
// by a plain client that drives Ironic as fast as it answers. What is left to the
// server is to notice late that Ironic has finished something, and to ask Ironic for
// more than is needed.
func BenchmarkProvision(b *testing.B) {
	benchmarkProvision(b, fleetOptions{size: 20}, *rounds, "mean x 1.10, worst x 1.2")
}

// BenchmarkProvisionMany does the same once with as many hosts as -many says.
func BenchmarkProvisionMany(b *testing.B) {
	if *manyHosts == 0 {
		b.Skip("-many=200, for instance")
	}
	// All ramdisks call at the same time.
	heartbeat := time.Duration(*manyHosts) * time.Second / 20
	benchmarkProvision(b, fleetOptions{size: *manyHosts, args: unlimited, large: true, heartbeat: heartbeat}, 1, "x 1.15")
}

// BenchmarkProvisionAlone has the server alone provision as many hosts as -alone says, with its own limit of
// how many Ironic works on at a time.
func BenchmarkProvisionAlone(b *testing.B) {
	if *aloneHosts == 0 {
		b.Skip("-alone=1000, for instance")
	}
	ctx := b.Context()
	f := startFleet(ctx, b, fleetOptions{size: *aloneHosts, large: true})
	p, share, err := f.measure(ctx, f.byServer)
	if err != nil {
		b.Fatal(err)
	}
	b.Logf("%s; %s", p, share)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(p.provisioned.quantile(1).Seconds(), "provisioned-s")
	record(figure{what: fmt.Sprintf("%d hosts create -> provisioned", f.size), measured: text(p.provisioned.quantile(1)), beside: share})
}

// startFleet is newFleet for benchmarks.
func startFleet(ctx context.Context, b *testing.B, options fleetOptions) *fleet {
	b.Helper()
	realIronic(b)
	if *release == "bookworm" {
		b.Skip("this Ironic inspects nothing by itself; needs that of trixie or sid")
	}
	if err := leaveAlone(ctx); err != nil {
		b.Fatal(err)
	}
	f, err := newFleet(ctx, options)
	b.Cleanup(func() {
		if err := f.stop(); err != nil {
			b.Error(err)
		}
	})
	if err != nil {
		b.Fatal(err)
	}
	return f
}

// measure provisions all hosts, and reports what CPU time Ironic took for it.
func (f *fleet) measure(ctx context.Context, run func(context.Context) (progress, error)) (p progress, ironic string, err error) {
	before, err := f.ironic.CPUTime()
	if err != nil {
		return p, "", err
	}
	began := time.Now()
	if p, err = run(ctx); err != nil {
		return p, "", err
	}
	took := time.Since(began)
	after, err := f.ironic.CPUTime()
	if err != nil {
		return p, "", err
	}
	used := (after - before).Seconds()
	return p, fmt.Sprintf("Ironic %.1f s of CPU, %.0f %% of a core", used, 100*used/took.Seconds()), nil
}

func benchmarkProvision(b *testing.B, options fleetOptions, rounds int, wanted string) {
	ctx := b.Context()
	f := startFleet(ctx, b, options)
	ways := []way{{"server", f.byServer}, {"client", f.byClient}}
	if rounds > 1 { // the first machines pay for what Ironic loads once
		if _, err := f.byClient(ctx); err != nil {
			b.Fatalf("before the rounds: %v", err)
		}
		if err := f.clear(ctx); err != nil {
			b.Fatalf("before the rounds: %v", err)
		}
	}
	var available, provisioned [2]samples // until the last host was
	var availableRatios, provisionedRatios ratios
	for round := range rounds {
		for i, w := range ways {
			p, share, err := f.measure(ctx, w.run)
			if err != nil {
				b.Fatalf("round %d, %s: %v", round, w.name, err)
			}
			b.Logf("round %d, %s: %s; %s", round, w.name, p, share)
			available[i] = append(available[i], p.available.quantile(1))
			provisioned[i] = append(provisioned[i], p.provisioned.quantile(1))
			if err := f.clear(ctx); err != nil {
				b.Fatalf("after round %d, %s: %v", round, w.name, err)
			}
		}
		availableRatios.add(available[0][round], available[1][round])
		provisionedRatios.add(provisioned[0][round], provisioned[1][round])
		b.Logf("round %d: available %.2f, provisioned %.2f times as long as the client", round, availableRatios[round], provisionedRatios[round])
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(available[0].median().Seconds(), "available-s")
	b.ReportMetric(available[1].median().Seconds(), "raw-available-s")
	b.ReportMetric(provisioned[0].median().Seconds(), "provisioned-s")
	b.ReportMetric(provisioned[1].median().Seconds(), "raw-provisioned-s")
	// Of each round: what else the machine does changes from round to round.
	b.ReportMetric(availableRatios.mean(), "x-raw-available")
	b.ReportMetric(provisionedRatios.mean(), "x-raw")
	result := fmt.Sprintf("x %.2f", provisionedRatios.mean())
	if rounds > 1 {
		result = fmt.Sprintf("mean x %.2f, worst x %.2f", provisionedRatios.mean(), slices.Max(provisionedRatios))
	}
	record(figure{
		what:     fmt.Sprintf("%d hosts create -> provisioned, %d rounds, Ironic of %s", f.size, rounds, *release),
		measured: text(provisioned[0].median()), beside: "client " + text(provisioned[1].median()), result: result, wanted: wanted,
	})
}

// ratios are how many times as long the server took as the client, round by round.
type ratios []float64

func (r *ratios) add(server, client time.Duration) {
	*r = append(*r, float64(server)/float64(client))
}

func (r ratios) mean() float64 {
	sum := 0.0
	for _, ratio := range r {
		sum += ratio
	}
	return sum / float64(len(r))
}

// way is one way to provision the hosts.
type way struct {
	name string
	run  func(context.Context) (progress, error)
}

// progress is when hosts arrived, from the beginning of a round on.
type progress struct{ available, provisioned samples }

func (p progress) String() string {
	at := func(s samples) string {
		return fmt.Sprintf("first %.1f s, median %.1f s, last %.1f s", s.quantile(0).Seconds(), s.median().Seconds(), s.quantile(1).Seconds())
	}
	return "available: " + at(p.available) + "; provisioned: " + at(p.provisioned)
}

func fleetHost(i int) string { return fmt.Sprintf("worker-%04d", i) }
