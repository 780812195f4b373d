// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// TestOperatorProgram moves hosts that a real Bare Metal Operator, of which BMO is the path, has enrolled and provisioned, and moves
// them back to it. BMO_CRDS is a file with its CustomResourceDefinitions. Neither way changes a node, and the operator acts on the
// hosts afterwards.
func TestOperatorProgram(t *testing.T) {
	program, definitions := os.Getenv("BMO"), os.Getenv("BMO_CRDS")
	if program == "" || definitions == "" {
		t.Skip("BMO and BMO_CRDS are not set")
	}
	kubectl(t, "apply", "--server-side", "--force-conflicts", "-f", definitions)
	kubectl(t, "wait", "--for=condition=Established", "--timeout=5m", "-f", definitions)
	ns := newNamespace(t)
	o := &operatorProgram{t: t, path: program, ns: ns, ironic: s.ironic.URL()}
	o.start()
	wanted := map[string]metal3.ProvisioningState{
		"provisioned": metal3.StateProvisioned, "available": metal3.StateAvailable, "external": metal3.StateExternallyProvisioned,
	}
	for name := range wanted {
		o.enrol(name)
	}
	for name, state := range wanted {
		o.becomes(name, state)
	}
	var fleet []*member
	for name := range wanted {
		host := o.host(t.Context(), name)
		fleet = append(fleet, &member{ns: ns, name: name, host: host, node: host.Status.Provisioning.ID})
	}
	o.stop()
	before := nodesOf(t, fleet)

	server := install(t, s.Kube.EtcdEndpoint)
	server.run(t, "import")
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	server.run(t, "import", "--switch")
	eventually(t, func(ctx context.Context) error {
		for name, state := range wanted {
			host := o.host(ctx, name)
			if host.Status.Provisioning.State != state || !meta.IsStatusConditionTrue(host.Status.Conditions, metal3.RegisteredCondition) {
				return fmt.Errorf("host %s is %s: %+v", name, host.Status.Provisioning.State, host.Status.Conditions)
			}
			if host.Status.ErrorMessage != "" || meta.IsStatusConditionTrue(host.Status.Conditions, metal3.HeldCondition) {
				return fmt.Errorf("host %s has the error %q", name, host.Status.ErrorMessage)
			}
		}
		return nil
	})
	looked := looksAtNodes()
	eventually(t, func(context.Context) error {
		if n := looksAtNodes() - looked; n < 5 {
			return fmt.Errorf("the leader has looked at Ironic %d times", n)
		}
		return nil
	})
	if diff := cmp.Diff(before, nodesOf(t, fleet)); diff != "" {
		t.Errorf("nodes were changed (-before the move +after it):\n%s", diff)
	}
	expectOnlyLookedAt(t, server, "")

	if _, err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	server.run(t, "export")
	o.start()
	// It acts again, and takes the hosts for what they were.
	patch := []byte(`{"spec":{"online":false}}`)
	if _, err := s.Metal3.Metal3V1alpha1().BareMetalHosts(ns).Patch(t.Context(), "available", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) error {
		if host := o.host(ctx, "available"); host.Status.PoweredOn {
			return fmt.Errorf("the operator has not switched host %s off: %+v", host.Name, host.Status)
		}
		return nil
	})
	for name, state := range wanted {
		o.becomes(name, state)
		if host := o.host(t.Context(), name); name != "available" && host.Status.Provisioning.ID != fleetNode(fleet, name) {
			t.Errorf("host %s has node %s", name, host.Status.Provisioning.ID)
		}
	}
	for _, m := range fleet {
		for _, write := range s.ironic.DiskWrites(m.node) {
			if m.name != "provisioned" || write.Step != "deploy.write_image" && write.Step != "deploy.erase_devices_metadata" {
				t.Errorf("the disks of host %s were written to: %+v", m.name, write)
			}
		}
	}
	o.stop()
	unlock(t, ns)
}

func fleetNode(fleet []*member, name string) string {
	for _, m := range fleet {
		if m.name == name {
			return m.node
		}
	}
	return ""
}

// operatorProgram is a real Bare Metal Operator.
type operatorProgram struct {
	t      *testing.T
	path   string
	ns     string // that it watches; empty for all
	ironic string // URL
	claims bool   // it cares for HostClaims
	cmd    *exec.Cmd
	log    bytes.Buffer
}

func (o *operatorProgram) start() {
	o.t.Helper()
	args := []string{"--namespace=" + o.ns, "--dev", "--metrics-addr=0", "--health-addr=0", "--webhook-port=0"}
	if o.claims {
		args = append(args, "--hostclaims")
	}
	o.cmd = exec.CommandContext(o.t.Context(), o.path, args...)
	o.cmd.Env = append(os.Environ(), "KUBECONFIG="+s.Kube.Admin.Kubeconfig, "IRONIC_ENDPOINT="+o.ironic+"/v1/",
		"DEPLOY_KERNEL_URL="+testbed.UnusedKernelURL, "DEPLOY_RAMDISK_URL="+testbed.UnusedRamdiskURL, "PROVISIONING_LIMIT=100")
	o.cmd.Stdout, o.cmd.Stderr = &o.log, &o.log
	o.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := o.cmd.Start(); err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(func() {
		o.stop()
		if o.t.Failed() {
			o.t.Logf("the log of the operator:\n%s", &o.log)
		}
	})
}

// stop kills the operator, if it runs.
func (o *operatorProgram) stop() {
	if o.cmd != nil {
		_ = o.cmd.Process.Kill() // it may have ended
		_ = o.cmd.Wait()
		o.cmd = nil
	}
}

// enrol creates a host that is to become what its name says.
func (o *operatorProgram) enrol(name string) {
	o.t.Helper()
	ctx := o.t.Context()
	address := s.ironic.NewBMC("root", "calvin")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name + "-bmc"}, StringData: map[string]string{"username": "root", "password": "calvin"}}
	if _, err := s.Core.CoreV1().Secrets(o.ns).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		o.t.Fatal(err)
	}
	host := &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: o.ns}, Spec: metal3.BareMetalHostSpec{
		Online: true, BootMACAddress: testbed.NewMAC(), AutomatedCleaningMode: metal3.CleaningModeMetadata,
		BMC: metal3.BMCDetails{Address: address, CredentialsName: secret.Name}, ExternallyProvisioned: name == "external",
	}}
	if name == "provisioned" {
		host.Spec.Image = &metal3.Image{URL: "http://192.0.2.1/image.qcow2", Checksum: "http://192.0.2.1/image.qcow2.sha256", ChecksumType: metal3.SHA256}
	}
	if _, err := s.Metal3.Metal3V1alpha1().BareMetalHosts(o.ns).Create(ctx, host, metav1.CreateOptions{}); err != nil {
		o.t.Fatal(err)
	}
}

func (o *operatorProgram) host(ctx context.Context, name string) *metal3.BareMetalHost {
	o.t.Helper()
	host, err := s.Metal3.Metal3V1alpha1().BareMetalHosts(o.ns).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		o.t.Fatal(err)
	}
	return host
}

func (o *operatorProgram) becomes(name string, state metal3.ProvisioningState) {
	o.t.Helper()
	eventually(o.t, func(ctx context.Context) error {
		if host := o.host(ctx, name); host.Status.Provisioning.State != state || host.Status.ErrorMessage != "" {
			return fmt.Errorf("host %s is %s: %q", name, host.Status.Provisioning.State, host.Status.ErrorMessage)
		}
		return nil
	})
}
