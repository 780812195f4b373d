// SPDX-License-Identifier: Apache-2.0

package metal3

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/validation"
)

// TestDocumentedQuota computes what a namespace with the ResourceQuota of docs/security.md can hold at most, if each object has
// the largest size that is accepted. All kinds with namespaces must be in the quota.
func TestDocumentedQuota(t *testing.T) {
	content, err := os.ReadFile("../../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(content)
	_, block, _ := strings.Cut(page, "```yaml\napiVersion: v1\nkind: ResourceQuota\n")
	block, _, _ = strings.Cut(block, "```")
	var quota corev1.ResourceQuota
	if err := yaml.UnmarshalStrict([]byte(block), &quota); err != nil {
		t.Fatal(err)
	}
	largest := map[string]int{"baremetalhosts": validation.MaxMetadata + validation.HostLimits.Spec + validation.HostLimits.Status + validation.MaxHardware}
	for _, k := range kinds {
		if k.ClusterScoped {
			continue
		}
		limits := k.SizeLimits()
		largest[k.Resource] = validation.MaxMetadata + limits.Spec + limits.Status
	}
	sum := 0
	for resource, size := range largest {
		count, limited := quota.Spec.Hard[corev1.ResourceName("count/"+resource+".metal3.io")]
		if !limited {
			t.Errorf("the quota does not limit %s", resource)
		}
		sum += int(count.Value()) * size
	}
	if len(quota.Spec.Hard) != len(largest) {
		t.Errorf("the quota limits %v, and the kinds are %v", quota.Spec.Hard, slices.Collect(maps.Keys(largest)))
	}
	const bound = 256 << 20
	if sum > bound {
		t.Errorf("a namespace can hold %d MiB, want at most %d", sum>>20, bound>>20)
	}
	documented := regexp.MustCompile(`at most (\d+) MiB in a\s+namespace`).FindStringSubmatch(page)
	if documented == nil || documented[1] != strconv.Itoa((sum+1<<20-1)>>20) {
		t.Errorf("docs/security.md says at most %v MiB, want %d", documented, (sum+1<<20-1)>>20)
	}
}
