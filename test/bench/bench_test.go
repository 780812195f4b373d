// Package bench measures the server beside the Ironic that it asks: what a reader
// pays on top of the raw request to Ironic, what Ironic is spared when many read,
// what the watch cache costs and saves, and how long hosts take to be provisioned.
//
// All that matters is a ratio of two things measured in turns, in one run, on one
// machine; there are no limits on times. The server is the real program behind
// HTTPS with a kube-apiserver to authenticate with, asked past the aggregation
// layer. Run `make bench`; docs/performance.md says what comes out and how to read it.
//
// For reads and watches the Ironic is the simulator, or, with IRONIC=bookworm,
// trixie or sid, a real one from the packages of that Debian release, at one
// thousand hosts at most. Hosts are provisioned by a real one in any case.
package bench

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

var (
	most       = flag.Int("hosts", 10000, "leave out the benchmarks with more hosts than this")
	idle       = flag.Duration("idle", 35*time.Second, "how long to watch the server doing nothing; the leader looks at all nodes each 30s")
	profileDir = flag.String("serverprofile", "", "directory for CPU profiles of the server, one for each benchmark of reads")
)

// small and large are the numbers of hosts to measure at.
const small, large = 1000, 10000

// shared is what the benchmarks share, started by the first that needs it.
var shared struct {
	dir  string
	kube *testbed.Kube
	bed  *bed
}

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if err := stopShared(code != 0 || *keep); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		code = 1
	}
	os.Exit(code)
}

func stopShared(keep bool) error {
	var errs []error
	if shared.bed != nil {
		errs = append(errs, shared.bed.stop())
	}
	if shared.kube != nil {
		errs = append(errs, shared.kube.Stop())
	}
	if shared.dir == "" {
		return nil
	}
	if keep {
		fmt.Fprintln(os.Stderr, "bench: logs are in", shared.dir)
	} else {
		errs = append(errs, os.RemoveAll(shared.dir))
	}
	return errors.Join(errs...)
}

// at returns the server with so many hosts, all recorded and quiet. One is alive
// at a time: an idle one polls its Ironic, which would be heard by the others.
func at(b *testing.B, hosts int, watchCache bool) *bed {
	b.Helper()
	if hosts > *most {
		b.Skipf("-hosts=%d", *most)
	}
	if hosts > small && !simulatedIronic() {
		b.Skip("more hosts than a real Ironic takes in within a minute")
	}
	ctx, cancel := context.WithTimeout(b.Context(), 10*time.Minute)
	defer cancel()
	if err := prepare(ctx, hosts, watchCache); err != nil {
		b.Fatal(err)
	}
	return shared.bed
}

// startKube starts what all benchmarks share, and makes the namespace of the hosts.
func startKube(ctx context.Context) (err error) {
	if shared.kube != nil {
		return nil
	}
	if shared.dir, err = os.MkdirTemp("", "bench-"); err != nil {
		return err
	}
	dir := filepath.Join(shared.dir, "kube")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	if shared.kube, err = testbed.StartKube(ctx, testbed.KubeOptions{Dir: dir}); err != nil {
		return err
	}
	_, _, err = shared.kube.Kubectl(ctx, "", "create", "namespace", namespace)
	return err
}

func prepare(ctx context.Context, hosts int, watchCache bool) (err error) {
	if err := startKube(ctx); err != nil {
		return err
	}
	if shared.bed != nil && len(shared.bed.nodes) != hosts {
		if err := shared.bed.stop(); err != nil {
			return err
		}
		shared.bed = nil
	}
	if shared.bed == nil {
		if shared.bed, err = newBed(ctx, hosts); err != nil {
			return err
		}
	}
	return shared.bed.serve(ctx, watchCache)
}
