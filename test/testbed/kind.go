// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"os"
	"testing"
)

// IsSimulated reports whether IRONIC is unset or sim: the Ironic of a suite that has both kinds is the simulator then.
func IsSimulated() bool { return os.Getenv("IRONIC") == "" || os.Getenv("IRONIC") == "sim" }

// OnSimulator leaves a test to the simulated Ironic, because what it is about does not depend on Ironic. With ALL=1, it
// runs on a real Ironic as well.
func OnSimulator(t testing.TB, because string) {
	t.Helper()
	if all := os.Getenv("ALL"); !IsSimulated() && (all == "" || all == "0") {
		t.Skipf("runs on the simulated Ironic: %s", because)
	}
}
