// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	plugin "github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/app"
	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// TestResourceQuotaOfEachKind: a quota can limit each kind, names the one that is exhausted, and has room again when an
// object is gone.
func TestResourceQuotaOfEachKind(t *testing.T) {
	k := newShell(t)
	served, err := s.Core.Discovery().ServerResourcesForGroupVersion(metal3.SchemeGroupVersion.String())
	if err != nil {
		t.Fatal(err)
	}
	var kinds []metav1.APIResource
	var counts []string
	for _, r := range served.APIResources {
		if r.Namespaced && !strings.Contains(r.Name, "/") {
			kinds, counts = append(kinds, r), append(counts, countOf(r.Name)+"=1")
		}
	}
	if len(kinds) != 13 {
		t.Fatalf("there are %d kinds with namespaces", len(kinds))
	}
	k.limit(strings.Join(counts, ","))
	for _, kind := range kinds {
		k.limitsKind(kind)
	}
}

// countOf is the name of a kind in quotas.
func countOf(resource string) string { return "count/" + resource + ".metal3.io" }

// limitsKind uses up the quota of a kind, and gives it back.
func (k kubectlShell) limitsKind(kind metav1.APIResource) {
	k.t.Helper()
	objects := s.Dynamic.Resource(metal3.SchemeGroupVersion.WithResource(kind.Name)).Namespace(k.ns)
	create := func(name string) error {
		var spec map[string]any
		if err := json.Unmarshal([]byte(kindSamples[kind.Kind].spec), &spec); err != nil {
			k.t.Fatalf("the sample of %s: %v", kind.Kind, err)
		}
		object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
		object.SetGroupVersionKind(metal3.SchemeGroupVersion.WithKind(kind.Kind))
		object.SetName(name)
		_, err := objects.Create(k.ctx, object, metav1.CreateOptions{})
		return err
	}
	first, second := "first-"+strings.ToLower(kind.Kind), "second-"+strings.ToLower(kind.Kind)
	if err := create(first); err != nil {
		k.t.Errorf("%s: %v", kind.Kind, err)
		return
	}
	count := countOf(kind.Name)
	want := fmt.Sprintf(`%s.metal3.io %q is forbidden: exceeded quota: hosts, requested: %s=1, used: %s=1, limited: %s=1`, kind.Name, second, count, count, count)
	if err := create(second); !apierrors.IsForbidden(err) || err.Error() != want {
		k.t.Errorf("%s, beyond the quota: %v, want %s", kind.Kind, err, want)
	}
	if err := objects.Delete(k.ctx, first, metav1.DeleteOptions{}); err != nil {
		k.t.Error(err)
	}
	testbed.Eventually(k.t, k.ctx, func() string {
		if err := create(second); err != nil {
			return fmt.Sprintf("%s: there is no room: %v", kind.Kind, err)
		}
		return ""
	})
	k.counts(kind.Name, "1")
}

// counts waits until the quota says how many objects of a kind there are.
func (k kubectlShell) counts(resource, want string) {
	k.t.Helper()
	path := fmt.Sprintf(`jsonpath={.status.used.count/%s\.metal3\.io}`, resource)
	testbed.Eventually(k.t, k.ctx, func() string {
		if got := k.ok("", "get", "quota", "hosts", "-o", path); got != want {
			return fmt.Sprintf("the quota says that %q %s are there, want %s", got, resource, want)
		}
		return ""
	})
}

// TestResourceQuotaUntilGone: what is being deleted counts until its machine is given back. What the server itself has to
// record of a host is not kept out by a quota.
func TestResourceQuotaUntilGone(t *testing.T) {
	k := newShell(t)
	k.limit("count/baremetalhosts.metal3.io=1,count/hostclaims.metal3.io=1,count/hardwaredata.metal3.io=0")
	k.ok("", "create", "secret", "generic", "h-bmc", "--from-literal=username=admin", "--from-literal=password=password")
	k.ok(strings.Replace(managedHostYAML("h"), "inspectionMode: disabled, ", "", 1), "create", "-f", "-")
	k.ok("", "wait", "bmh/h", "--for=condition=AvailableForProvisioning", "--timeout=5m")
	k.ok("", "get", "hardwaredata", "h")

	claim := func(name string) string {
		return fmt.Sprintf("apiVersion: metal3.io/v1alpha1\nkind: HostClaim\nmetadata: {name: %s}\nspec: {poweredOn: true, hostSelector: {inNamespace: %s}}\n", name, k.ns)
	}
	k.ok(fmt.Sprintf("apiVersion: metal3.io/v1alpha1\nkind: HostDeployPolicy\nmetadata: {name: own}\nspec: {hostClaimNamespaces: {names: [%s]}}\n", k.ns), "create", "-f", "-")
	k.ok(claim("mine"), "create", "-f", "-")
	k.ok("", "wait", "hostclaim/mine", "--for=condition=Associated", "--timeout=5m")
	const more = `hostclaims.metal3.io "more" is forbidden: exceeded quota: hosts, requested: count/hostclaims.metal3.io=1, used: count/hostclaims.metal3.io=1, limited: count/hostclaims.metal3.io=1`
	k.refused(claim("more"), []string{"create", "-f", "-"}, more)

	// A paused host keeps its claim, which counts as long as it is there.
	pause, goOn := []string{"annotate", "bmh", "h", "baremetalhost.metal3.io/paused="}, []string{"annotate", "bmh", "h", "baremetalhost.metal3.io/paused-"}
	k.ok("", pause...)
	k.ok("", "delete", "hostclaim", "mine", "--wait=false")
	k.ok("", "wait", "hostclaim/mine", "--for=condition=Associated=false", "--timeout=5m")
	k.refused(claim("more"), []string{"create", "-f", "-"}, more)
	k.ok("", goOn...)
	k.ok("", "wait", "hostclaim/mine", "--for=delete", "--timeout=5m")
	k.counts("hostclaims", "0")

	k.ok("", pause...)
	k.ok("", "delete", "bmh", "h", "--wait=false")
	k.refused(hostYAML("other", "online: true"), []string{"create", "-f", "-"}, "exceeded quota: hosts, requested: count/baremetalhosts.metal3.io=1")
	k.ok("", goOn...)
	k.ok("", "wait", "bmh/h", "--for=delete", "--timeout=5m")
	k.quotaUsed("0")
	k.quotaHasRoom()
	k.ok(hostYAML("other", "online: true"), "create", "-f", "-")
	testbed.Eventually(t, k.ctx, func() string {
		_, stderr, _ := k.run(claim("more"), "create", "-f", "-")
		return stderr
	})
}

// TestResourceQuotaOfInventory: an inventory with more hosts than a quota permits says so for each that is one too many, and
// can be applied again when there is room.
func TestResourceQuotaOfInventory(t *testing.T) {
	k := newShell(t)
	k.limit("count/baremetalhosts.metal3.io=2")
	inventory := "name,address,username,password,bootMACAddress\n"
	for i := range 3 {
		inventory += fmt.Sprintf("rack-%d,ipmi://192.0.2.%d,admin,password,00:00:5e:00:53:1%d\n", i, i+1, i)
	}
	enrol := func() (code int, said string) {
		var out bytes.Buffer
		code = plugin.Run(k.ctx, []string{"--kubeconfig=" + s.Kube.Admin.Kubeconfig, "--namespace=" + k.ns, "create", "-f", "-"},
			genericiooptions.IOStreams{In: strings.NewReader(inventory), Out: &bytes.Buffer{}, ErrOut: &out})
		return code, out.String()
	}
	const exceeded = "exceeded quota: hosts, requested: count/baremetalhosts.metal3.io=1, used: count/baremetalhosts.metal3.io=2, limited: count/baremetalhosts.metal3.io=2"
	if code, said := enrol(); code != 1 || strings.Count(said, exceeded) != 1 || !strings.Contains(said, "2 of 3 hosts applied") {
		t.Errorf("exit code %d: %s", code, said)
	}
	k.quotaUsed("2")
	k.ok("", "patch", "quota", "hosts", "--type=merge", "-p", `{"spec":{"hard":{"count/baremetalhosts.metal3.io":"4"}}}`)
	k.quotaHasRoom()
	if code, said := enrol(); code != 0 || !strings.Contains(said, "3 of 3 hosts applied") {
		t.Errorf("with room for all of them, exit code %d: %s", code, said)
	}
	k.quotaUsed("3")
}
