// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/version"
)

func object(apiVersion, kind, name string, fields map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"namespace": "metal3", "name": name}}}
	for key, value := range fields {
		_ = unstructured.SetNestedField(u.Object, value, strings.Split(key, ".")...)
	}
	return u
}

func withConsumer(h *metal3.BareMetalHost) {
	h.Spec.ConsumerRef = &corev1.ObjectReference{APIVersion: "infrastructure.cluster.x-k8s.io/v1beta1", Kind: "Metal3Machine", Namespace: "metal3", Name: "m3m"}
}

func TestListShowsMachinesAndNodes(t *testing.T) {
	c := newCluster(
		host("worker-0", metal3.StateProvisioned, withConsumer),
		host("worker-1", metal3.StateRegistering, withError("no answer\x1b[2J")),
		object("infrastructure.cluster.x-k8s.io/v1beta1", "Metal3Machine", "m3m", map[string]any{"metadata.ownerReferences": []any{
			map[string]any{"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine", "name": "machine-a", "uid": "u"},
		}}),
		object("cluster.x-k8s.io/v1beta1", "Machine", "machine-a", map[string]any{"status.nodeRef.name": "node-a"}),
	)
	if code := c.run(t); code != exitOK {
		t.Fatalf("exit code %d: %s", code, c.errOut)
	}
	expect(t, "the list", c.out, "NAME ", "worker-0  provisioned", "m3m", "machine-a", "node-a", "worker-1  registering", "no answer^[[2J")
}

// TestListWithoutRights: to see hosts, nobody needs to see Machines.
func TestListWithoutRights(t *testing.T) {
	c := newCluster(host("worker-0", metal3.StateProvisioned, withConsumer))
	c.dynamic.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "metal3machines"}, "", errors.New("no"))
	})
	if code := c.run(t); code != exitOK || c.errOut != "" {
		t.Fatalf("exit code %d: %s", code, c.errOut)
	}
	expect(t, "the list", c.out, "worker-0", "m3m")
}

func TestListFormats(t *testing.T) {
	c := newCluster(host("worker-0", metal3.StateProvisioned), host("worker-1", metal3.StateAvailable))
	for _, format := range []struct{ flag, want string }{
		{"name", "baremetalhost.metal3.io/worker-0\nbaremetalhost.metal3.io/worker-1\n"},
		{"jsonpath={.items[*].metadata.name}", "worker-0 worker-1"},
		{"json", `"kind": "BareMetalHost"`},
		{"yaml", "kind: BareMetalHost"},
		{"wide", "IRONIC"},
	} {
		if code := c.run(t, "-o", format.flag); code != exitOK {
			t.Errorf("-o %s: exit code %d: %s", format.flag, code, c.errOut)
		}
		expect(t, "-o "+format.flag, c.out, format.want)
	}
	if code := c.run(t, "-o", "nonsense"); code != exitError {
		t.Errorf("-o nonsense: exit code %d", code)
	}
}

func TestListErrors(t *testing.T) {
	c := newCluster()
	if code := c.run(t); code != exitOK || c.out != "" || c.errOut != "No hosts found in namespace metal3.\n" {
		t.Errorf("without hosts: exit code %d, %q, %q", code, c.out, c.errOut)
	}
	if code := c.run(t, "--sort", "size"); code != exitError || !strings.Contains(c.errOut, "error: --sort must be one of name, state") {
		t.Errorf("--sort size: exit code %d, %q", code, c.errOut)
	}
	if code := c.run(t, "nonsense"); code != exitError || !strings.Contains(c.errOut, "nonsense") {
		t.Errorf("an unknown command: exit code %d, %q", code, c.errOut)
	}
	c.metal3.PrependReactor("list", "baremetalhosts", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(metal3.Resource("baremetalhosts"), "", errors.New("no"))
	})
	if code := c.run(t); code != exitError || !strings.HasPrefix(c.errOut, "Error from server (Forbidden): ") {
		t.Errorf("without rights: exit code %d, %q", code, c.errOut)
	}
	if code := c.run(t, "watch"); code != exitError || !strings.HasPrefix(c.errOut, "Error from server (Forbidden): ") {
		t.Errorf("watch without rights: exit code %d, %q", code, c.errOut)
	}
}

func TestCompletion(t *testing.T) {
	c := newCluster(
		host("worker-0", metal3.StateProvisioned), host("worker-1", metal3.StateAvailable), host("master-0", metal3.StateProvisioned),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "metal3"}},
	)
	for _, words := range []struct {
		args []string
		want string
	}{
		{[]string{"why", "wor"}, "worker-0\tprovisioned\nworker-1\tavailable\n:4\n"},
		{[]string{"why", "worker-0", ""}, ":4\n"},
		{[]string{"wait", "worker-0", "w"}, "worker-1\tavailable\n:4\n"},
		{[]string{"power", "o"}, "on\noff\n:4\n"},
		{[]string{"power", "off", "m"}, "master-0\tprovisioned\n:4\n"},
		{[]string{"wait", "--for", "av"}, "available\n:4\n"},
		{[]string{"--field-selector", "status.provisioning.state=depr"}, "status.provisioning.state=deprovisioning\n:4\n"},
		{[]string{"--namespace", "me"}, "metal3\n:4\n"},
		{[]string{"pow"}, "power\t"},
	} {
		if code := c.run(t, append([]string{"__complete"}, words.args...)...); code != exitOK {
			t.Errorf("%q: exit code %d", words.args, code)
		}
		if !strings.HasPrefix(c.out, words.want) {
			t.Errorf("%q: %q, want %q", words.args, c.out, words.want)
		}
	}
	c.metal3.PrependReactor("list", "baremetalhosts", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("no connection")
	})
	if c.run(t, "__complete", "why", ""); c.out != ":4\n" {
		t.Errorf("without a server: %q", c.out)
	}
}

func TestVersion(t *testing.T) {
	c := newCluster()
	if code := c.run(t, "--version"); code != 0 || c.out != version.Line("kubectl bmh")+"\n" || c.errOut != "" {
		t.Errorf("exit code %d: %q, %q", code, c.out, c.errOut)
	}
}
