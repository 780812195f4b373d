// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"fmt"
	"strings"
	"testing"

	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

const exceeded = `is forbidden: exceeded quota: hosts, requested: count/baremetalhosts.metal3.io=1, used: count/baremetalhosts.metal3.io=2, limited: count/baremetalhosts.metal3.io=2`

// TestResourceQuota: a quota on the number of hosts holds as it does for custom
// resources.
func TestResourceQuota(t *testing.T) {
	k := newShell(t)
	k.limit("count/baremetalhosts.metal3.io=2,count/hardwaredata.metal3.io=1")
	k.ok(hostYAML("a", "online: true"), "create", "-f", "-")
	k.quotaUsed("1")

	t.Run("trial runs do not count", func(t *testing.T) {
		k := k.in(t)
		for _, name := range []string{"b", "c", "d"} {
			k.ok(hostYAML(name, "online: true"), "create", "--dry-run=server", "-f", "-")
		}
	})
	t.Run("what is refused does not count", func(t *testing.T) {
		k := k.in(t)
		for range 3 {
			k.refused(hostYAML("b", "online: true, inspectionMode: sometimes"), []string{"create", "-f", "-"}, "spec.inspectionMode")
		}
	})
	k.ok(hostYAML("b", "online: true"), "apply", "--server-side", "-f", "-")
	k.quotaUsed("2")

	t.Run("exceeded", func(t *testing.T) {
		k := k.in(t)
		for _, verb := range [][]string{{"create"}, {"apply"}, {"apply", "--server-side"}, {"create", "--dry-run=server"}} {
			k.refused(hostYAML("c", "online: true"), append(verb, "-f", "-"), "(Forbidden)", `baremetalhosts.metal3.io "c" `+exceeded)
		}
		k.ok("", "patch", "bmh", "a", "--type=merge", "-p", `{"spec":{"online":false}}`) // no new host
		if got := k.ok("", "describe", "quota", "hosts"); !strings.Contains(got, "count/baremetalhosts.metal3.io  2     2") {
			t.Errorf("describe prints %s", got)
		}
	})
	t.Run("deleting makes room", func(t *testing.T) {
		k := k.in(t)
		k.ok("", "delete", "bmh", "a")
		k.quotaUsed("1")
		k.quotaHasRoom()
		k.ok(hostYAML("c", "online: true"), "create", "-f", "-")
	})
	t.Run("another kind", func(t *testing.T) {
		k := k.in(t)
		data := func(name string) string {
			return "{apiVersion: metal3.io/v1alpha1, kind: HardwareData, metadata: {name: " + name + "}}"
		}
		k.ok(data("a"), "create", "-f", "-")
		k.refused(data("b"), []string{"create", "-f", "-"}, `hardwaredata.metal3.io "b" is forbidden: exceeded quota: hosts`)
	})
}

// limit makes a quota, and waits until it holds.
func (k kubectlShell) limit(hard string) {
	k.t.Helper()
	k.ok("", "create", "quota", "hosts", "--hard="+hard)
	// The controller that counts looks for new kinds every 30 seconds, and counts
	// them in quotas that it has seen before after five minutes, or when those change.
	changes := 0
	testbed.Eventually(k.t, k.ctx, func() string {
		if k.used() == "0" {
			return ""
		}
		changes++
		k.ok("", "patch", "quota", "hosts", "--type=merge", "-p", fmt.Sprintf(`{"spec":{"hard":{"pods":"%d"}}}`, changes))
		return "the quota does not count hosts"
	})
	k.quotaHasRoom()
}

func (k kubectlShell) used() string {
	k.t.Helper()
	return k.ok("", "get", "quota", "hosts", "-o", `jsonpath={.status.used.count/baremetalhosts\.metal3\.io}`)
}

// quotaUsed waits until the quota says how many hosts there are.
func (k kubectlShell) quotaUsed(want string) {
	k.t.Helper()
	testbed.Eventually(k.t, k.ctx, func() string {
		if used := k.used(); used != want {
			return fmt.Sprintf("the quota says that %q hosts are there, want %s", used, want)
		}
		return ""
	})
}

// quotaHasRoom waits until our server has heard of the same.
func (k kubectlShell) quotaHasRoom() {
	k.t.Helper()
	testbed.Eventually(k.t, k.ctx, func() string {
		_, stderr, _ := k.run(hostYAML("room", "online: true"), "create", "--dry-run=server", "-f", "-")
		return stderr
	})
}
