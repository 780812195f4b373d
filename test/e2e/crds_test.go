// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// servedCRD is a CRD as the operator has it, with another schema.
const servedCRD = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"firmwareschemas.metal3.io"},"spec":{"group":"metal3.io","scope":"Namespaced",
"names":{"plural":"firmwareschemas","singular":"firmwareschema","kind":"FirmwareSchema","listKind":"FirmwareSchemaList"},
"versions":[{"name":"v1alpha1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`

// TestCRDServedBeside: the server notices a CRD that somebody has served beside it. To delete that deletes nothing here.
func TestCRDServedBeside(t *testing.T) {
	ctx, ns := s.Begin(t)
	kubectl := func(stdin string, args ...string) {
		t.Helper()
		if _, stderr, err := s.Kube.Kubectl(ctx, stdin, args...); err != nil {
			t.Fatalf("%v: %s", err, stderr)
		}
	}
	schemas := s.Metal3.Metal3V1alpha1().FirmwareSchemas(ns)
	before, err := schemas.Create(ctx, &metal3.FirmwareSchema{ObjectMeta: metav1.ObjectMeta{Name: "ours"}, Spec: metal3.FirmwareSchemaSpec{Schema: map[string]metal3.SettingSchema{}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	kubectl(servedCRD, "create", "-f", "-")
	kubectl("", "wait", "--for=condition=Established", "--timeout=5m", "crd/firmwareschemas.metal3.io")
	stillOurs := func(when string) {
		t.Helper()
		if now, err := schemas.Get(ctx, "ours", metav1.GetOptions{}); err != nil || now.UID != before.UID {
			t.Errorf("%s: %v, UID %s, was %s", when, err, now.UID, before.UID)
		}
	}
	stillOurs("while the CRD is served")

	options := s.serverOptions()
	options.EtcdServers, options.Args = s.Kube.EtcdEndpoint, append(options.Args, "--etcd-prefix=/registry/"+ns)
	server, _ := s.NewServer(t, ctx, ns, options) // which looks at once when it leads
	if err := server.Start(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	testbed.Eventually(t, ctx, func() string {
		metrics, _, err := server.Direct.Kubectl(ctx, "", "get", "--raw", "/metrics")
		if err != nil || !strings.Contains(metrics, "\nmetal3_served_crds 1\n") {
			return "the CRD is not counted"
		}
		return ""
	})
	kubectl("", "delete", "crd", "firmwareschemas.metal3.io", "--timeout=5m")
	stillOurs("without the CRD")
	testbed.Eventually(t, ctx, func() string { // for the tests that follow
		stdout, stderr, err := s.Kube.Kubectl(ctx, "", "explain", "firmwareschemas.spec.schema")
		if err != nil || !strings.Contains(stdout, "SettingSchema") {
			return "the published schema is not this server's: " + stdout + stderr
		}
		return ""
	})
}
