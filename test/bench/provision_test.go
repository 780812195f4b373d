package bench

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

var (
	rounds = flag.Int("rounds", 3, "how often BenchmarkProvision takes its hosts through their lives, by the server and by a client")
	keep   = flag.Bool("keep", false, "keep the logs of the servers")
)

// fleetSize is how many hosts are taken through their lives at a time; as many as
// --provisioning-limit lets be at work at a time.
const fleetSize = 20

// BenchmarkProvision takes hosts from nothing to a written image: enrolled,
// inspected, cleaned, deployed, on a real Ironic with simulated machines. In turns
// that is done by the server and by a plain client that drives Ironic as fast as
// it answers. What is left to the server is to notice late that Ironic has
// finished something, and to ask Ironic for more than is needed.
func BenchmarkProvision(b *testing.B) {
	if err := testbed.DebianIronicMissing(); err != nil {
		b.Skip(err)
	}
	if os.Getenv("IRONIC") == "bookworm" {
		b.Skip("this Ironic inspects nothing by itself; needs that of trixie or sid")
	}
	ctx, cancel := context.WithTimeout(b.Context(), 30*time.Minute)
	defer cancel()
	if err := leaveAlone(ctx); err != nil {
		b.Fatal(err)
	}
	f, err := newFleet(ctx)
	b.Cleanup(func() {
		if err := f.stop(); err != nil {
			b.Error(err)
		}
	})
	if err != nil {
		b.Fatal(err)
	}
	ways := []way{{"server", f.byServer}, {"client", f.byClient}}
	var available, provisioned [2]samples // until the last host was
	var availableRatios, provisionedRatios ratios
	for round := range *rounds {
		for i, w := range ways {
			p, err := w.run(ctx)
			if err != nil {
				b.Fatalf("round %d, %s: %v", round, w.name, err)
			}
			b.Logf("round %d, %s: %s", round, w.name, p)
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
	b.ReportMetric(availableRatios.median(), "x-raw-available")
	b.ReportMetric(provisionedRatios.median(), "x-raw")
}

// ratios are how many times as long the server took as the client, round by round.
type ratios []float64

func (r *ratios) add(server, client time.Duration) {
	*r = append(*r, float64(server)/float64(client))
}

func (r ratios) median() float64 {
	return slices.Sorted(slices.Values(r))[len(r)/2]
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

// leaveAlone makes room: of what the other benchmarks share only the control plane is left.
func leaveAlone(ctx context.Context) error {
	if err := startKube(ctx); err != nil {
		return err
	}
	if shared.bed == nil {
		return nil
	}
	err := shared.bed.stop()
	shared.bed = nil
	return err
}

func fleetHost(i int) string { return fmt.Sprintf("worker-%02d", i) }
