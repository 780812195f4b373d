// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"regexp"
	"strings"
	"testing"
)

// metric is a metric of this server.
type metric struct {
	Type string
	// Labels are the names of the labels, in order.
	Labels string
}

// documentedMetrics returns the metrics of this server, which docs/reference/metrics.md lists. (That it lists those of the code
// is tested in hack/docs.)
func documentedMetrics(t *testing.T) map[string]metric {
	t.Helper()
	documented := map[string]metric{}
	row := regexp.MustCompile("(?m)^\\| `(metal3_[a-z0-9_]+)` \\| ([a-z]+) \\| ([^|]+) \\| .+ \\| .+ \\|$")
	for _, match := range row.FindAllStringSubmatch(readDoc(t, "../docs/reference/metrics.md"), -1) {
		documented[match[1]] = metric{match[2], strings.ReplaceAll(match[3], "`", "")}
	}
	if len(documented) < 20 {
		t.Fatalf("docs/reference/metrics.md lists %d metrics only: is it read right?", len(documented))
	}
	return documented
}

// documentedOtherMetrics returns the metrics of libraries that docs/monitoring.md lists.
func documentedOtherMetrics(t *testing.T) map[string]bool {
	t.Helper()
	documented := map[string]bool{}
	ours, _, _ := strings.Cut(readDoc(t, "../docs/monitoring.md"), "### Metrics of the Bare Metal Operator")
	for _, match := range regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\| [^|]+ \\|$").FindAllStringSubmatch(ours, -1) {
		documented[match[1]] = true
	}
	return documented
}
