// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/metal3-io/metal3-apiserver/test/docs"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// TestPages runs what pages have users do with a host that they have: worker-0, with a BMC that has settings.
func TestPages(t *testing.T) {
	k := newShell(t)
	const address, moved = "redfish://192.0.2.21/redfish/v1/Systems/1", "redfish://192.0.2.22/redfish/v1/Systems/1"
	for _, bmc := range []string{address, moved} {
		s.ironic.AddBMC(bmc, docs.User, docs.Password)
	}
	s.CreateSecret(t, k.ctx, k.ns, "worker-0-bmc", map[string]string{"username": docs.User, "password": docs.Password})
	k.ok(`{"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": {"name": "worker-0"}, "spec": {"online": true,
		"bootMACAddress": "`+testbed.NewMAC()+`", "bmc": {"address": "`+address+`", "credentialsName": "worker-0-bmc"}}}`, "create", "-f", "-")
	bin := docs.BuildPlugin(t)
	reader := docs.Reader{
		T: t, Ctx: k.ctx, Path: bin, Dir: t.TempDir(), Kubeconfig: kubeconfigIn(t, k.ns),
		Variables: "HOSTS=/apis/metal3.io/v1alpha1/namespaces/" + k.ns + "/baremetalhosts\n",
		Replaces: []string{
			" NAME", " worker-0", "ADDRESS", moved, " SECRET", " worker-0-bmc", "namespaces/metal3/", "namespaces/" + k.ns + "/",
			":Enclosure.Internal.0-1:RAID.SL.3-1", "", "RAID.SL.3-1", "RAID", // as the simulated controller names them
			"<status.provisioning.ID>", "$(kubectl get bmh worker-0 -o jsonpath={.status.provisioning.ID})",
		},
	}
	is := func(state string) {
		k.ok("", "wait", "bmh/worker-0", "--for=jsonpath={.status.provisioning.state}="+state, "--timeout=5m")
	}
	is("available")

	reader.Run("actions.md", "kubectl get --raw $HOSTS/worker-0/validate")
	reader.Run("actions.md", "kubectl create --raw $HOSTS/worker-0/bootdevice")
	reader.Run("actions.md", "kubectl create --raw $HOSTS/worker-0/indicator")
	reader.Run("security.md", "kubectl get bmh -A -o jsonpath")
	reader.Run("monitoring.md", "kubectl get bmh -A -o wide")
	reader.Run("monitoring.md", "kubectl bmh why NAME")
	reader.Run("settings.md", "kubectl patch hfs worker-0 --type=merge --dry-run=server")
	reader.Run("actions.md", "kubectl create --raw $HOSTS/worker-0/clean")
	is("available")

	for _, command := range []string{"annotate bmh NAME baremetalhost.metal3.io/detached=", "wait bmh NAME --for=jsonpath", "patch bmh NAME", "annotate bmh NAME baremetalhost.metal3.io/detached-"} {
		reader.Run("troubleshooting.md", "kubectl "+command)
	}
	is("available")
	for _, command := range []string{"annotate bmh worker-0 baremetalhost.metal3.io/detached='", "wait bmh worker-0", "annotate bmh worker-0 baremetalhost.metal3.io/detached-"} {
		reader.Run("life.md", "kubectl "+command)
	}
	is("available")

	k.ok("", "patch", "hfs/worker-0", "--type=merge", "-p", `{"spec":{"settings":{"NumCores":100}}}`)
	k.ok("", "wait", "hfs/worker-0", "--for=condition=Valid=False", "--timeout=5m")
	reader.Run("settings.md", "kubectl get hfs worker-0")
	k.ok("", "patch", "hfs/worker-0", "--type=merge", "-p", `{"spec":{"settings":{"NumCores":null}}}`)
	reader.Run("settings.md", "kubectl patch hostfirmwarecomponents worker-0")
	reader.Run("settings.md", "kubectl patch bmh worker-0 --type=merge -p '{\"spec\":{\"raid\"")
	k.ok("", "wait", "bmh/worker-0", "--for=jsonpath={.status.provisioning.raid.hardwareRAIDVolumes[0].name}=system", "--timeout=5m")
	is("available")
	k.ok("", "patch", "bmh/worker-0", "--type=merge", "-p", `{"spec":{"image":{"url":"http://192.0.2.1/image.qcow2","checksum":"http://192.0.2.1/image.qcow2.sha256","checksumType":"sha256"}}}`)
	is("provisioned")
	reader.Run("settings.md", "kubectl apply -f - <<EOF")
	const refused = "Redfish BIOS apply_configuration step failed. Attributes {'NumCores': 4} are not updated."
	if err := s.ironic.FailNext(k.ok("", "get", "bmh/worker-0", "-o", "jsonpath={.status.provisioning.ID}"), "bios.apply_configuration", refused); err != nil {
		t.Fatal(err)
	}
	k.ok("", "patch", "hfs/worker-0", "--type=merge", "-p", `{"spec":{"settings":{"NumCores":4}}}`)
	k.ok("", "annotate", "bmh/worker-0", "reboot.metal3.io=")
	k.ok("", "wait", "bmh/worker-0", "--for=jsonpath={.status.operationalStatus}=error", "--timeout=5m")
	reader.Run("settings.md", "kubectl get bmh worker-0 -o 'jsonpath={.status.operationalStatus}")
	k.ok("", "patch", "hfs/worker-0", "--type=merge", "-p", `{"spec":{"settings":{"NumCores":null}}}`)
	k.ok("", "wait", "bmh/worker-0", "--for=jsonpath={.status.operationalStatus}=OK", "--timeout=5m")
	reader.Run("life.md", "kubectl create --raw /apis/metal3.io/v1alpha1/namespaces/metal3/baremetalhosts/worker-0/takeover")
	reader.Run("actions.md", "kubectl create --raw $HOSTS/worker-0/rebuild")
	is("provisioned")

	reader.Run("actions.md", "kubectl create --raw $HOSTS/worker-0/maintenance")
	k.ok("", "delete", "bmh/worker-0", "--wait=false")
	reader.Run("troubleshooting.md", "kubectl patch baremetalhost NAME")
	k.ok("", "wait", "--for=delete", "bmh/worker-0", "--timeout=5m")
	reader.Run("troubleshooting.md", "kubectl patch secret SECRET")
}

// kubeconfigIn returns the path of the administrator's kubeconfig with a namespace.
func kubeconfigIn(t *testing.T, namespace string) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(s.Kube.Admin.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, context := range config.Contexts {
		context.Namespace = namespace
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}
