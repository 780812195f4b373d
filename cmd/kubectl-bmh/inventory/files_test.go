// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// summary has a line for each host: what it is named, what of its spec is not empty, and its Secrets with what is in them.
func summary(t *testing.T, objects []Objects) (lines []string) {
	t.Helper()
	for _, o := range objects {
		spec, err := yaml.Marshal(o.Host.Spec)
		if err != nil {
			t.Fatal(err)
		}
		line := fmt.Sprintf("%s/%s %v %v {%s}", o.Host.Namespace, o.Host.Name, o.Host.Labels, o.Host.Annotations, strings.Join(strings.Fields(strings.ReplaceAll(string(spec), `"`, "")), " "))
		for _, secret := range o.Secrets {
			line += fmt.Sprintf(" %s/%s", secret.Namespace, secret.Name)
			for _, key := range []string{"username", "password", "networkData"} {
				line += cmp.Or(" "+string(secret.Data[key]), "")
			}
		}
		lines = append(lines, strings.TrimSpace(strings.ReplaceAll(line, "map[]", "-")))
	}
	return lines
}

// TestFiles: each kind of file is read as it is written by the programs and people who write it.
func TestFiles(t *testing.T) {
	for name, want := range map[string][]string{
		"manifest.yaml": {
			`metal3/m-1 map[rack:7] map[example.org/asset:0042] {bmc: address: ipmi://192.0.2.1 credentialsName: rack7-bmc bootMACAddress: 00:00:5E:00:53:01 online: true} metal3/rack7-bmc admin p: #"w`,
			`metal3/m-2 - - {bmc: address: redfish://192.0.2.2/redfish/v1/Systems/1 credentialsName: rack7-bmc online: false preprovisioningNetworkDataName: m-2-network} metal3/m-2-network   {}`,
			`elsewhere/m-3 - - {bmc: address: ipmi://192.0.2.3 credentialsName: is-there-already online: false}`,
			`metal3/m-4 - - {bmc: address: credentialsName: externallyProvisioned: true online: true}`,
		},
		"manifest-list.json": {
			`metal3/l-1 - - {automatedCleaningMode: metadata bmc: address: ipmi://192.0.2.1 credentialsName: l-1-bmc description: \U0001F600 online: true} metal3/l-1-bmc admin pw-\ud83d`,
		},
		"joined.yaml":    {`metal3/b-1 - - {bmc: address: ipmi://192.0.2.1 credentialsName: b-1-bmc online: true}`, `metal3/b-2 - - {bmc: address: ipmi://192.0.2.2 credentialsName: b-2-bmc online: true}`},
		"array.json":     {`metal3/a-1 - - {bmc: address: ipmi://192.0.2.1 credentialsName: a-1-bmc online: true} metal3/a-1-bmc admin pw`},
		"host-list.yaml": {`metal3/i-1 - - {bmc: address: ipmi://192.0.2.1 credentialsName: i-1-bmc online: true}`},
		"ironic_nodes.json": {
			`metal3/node-0 - - {architecture: x86_64 bmc: address: ipmi://192.0.2.1:6230 credentialsName: node-0-bmc-secret bootMACAddress: 00:00:5e:00:53:01 online: true} metal3/node-0-bmc-secret admin pw-0`,
			`metal3/node-1 - - {bmc: address: redfish-virtualmedia+https://192.0.2.1:8000/redfish/v1/Systems/1 credentialsName: node-1-bmc-secret disableCertificateVerification: true bootMACAddress: 00:00:5e:00:53:03 online: true} metal3/node-1-bmc-secret admin pw-1`,
			`metal3/node-2 - - {bmc: address: redfish-virtualmedia+http://192.0.2.1:8000/redfish/v1/Systems/2 credentialsName: node-2-bmc-secret disableCertificateVerification: true bootMode: UEFISecureBoot online: true rootDeviceHints: deviceName: /dev/sda minSizeGigabytes: 10} metal3/node-2-bmc-secret admin 2222`,
			`metal3/node-3 - - {bmc: address: ipmi://[2001:db8::3]?privilegelevel=OPERATOR credentialsName: node-3-bmc-secret bootMode: legacy online: true} metal3/node-3-bmc-secret admin pw-3`,
		},
		"ironic_hosts.json": {
			`metal3/m-0 - - {architecture: x86_64 bmc: address: ipmi://192.0.2.1:1234 credentialsName: m-0-bmc-secret bootMACAddress: 00:00:5e:00:53:01 bootMode: UEFI online: true} metal3/m-0-bmc-secret root pw`,
			`metal3/m-1 - - {bmc: address: redfish://192.0.2.2/redfish/v1/Systems/1 credentialsName: m-1-bmc-secret disableCertificateVerification: true bootMode: legacy online: true} metal3/m-1-bmc-secret root pw`,
		},
		"node-list.json": {
			`metal3/extra-0 - - {architecture: x86_64 bmc: address: redfish+http://192.0.2.1:8000/redfish/v1/Systems/1 credentialsName: extra-0-bmc-secret bootMACAddress: 00:00:5e:00:53:01 online: true rootDeviceHints: deviceName: /dev/disk/by-path/pci-0000:00:17.0-ata-1 minSizeGigabytes: 100 model: SSD rotational: false serialNumber: S4X} metal3/extra-0-bmc-secret a p`,
			`metal3/extra-1 - - {bmc: address: ipmi://192.0.2.2 credentialsName: extra-1-bmc-secret online: true} metal3/extra-1-bmc-secret a p`,
		},
		"merged.yaml": {
			`metal3/a - - {bmc: address: ipmi://192.0.2.1 credentialsName: a-bmc-secret bootMode: UEFI online: true} metal3/a-bmc-secret admin pw`,
			`metal3/b - - {bmc: address: ipmi://192.0.2.2 credentialsName: b-bmc-secret bootMode: UEFI online: true} metal3/b-bmc-secret admin pw`,
			`metal3/c - - {bmc: address: ipmi://192.0.2.3 credentialsName: c-bmc-secret bootMode: UEFI online: true} metal3/c-bmc-secret admin other`,
		},
		"merged-manifest.yaml": {
			`metal3/h-0 map[rack:7] - {bmc: address: ipmi://192.0.2.1 credentialsName: s online: true}`,
			`metal3/h-1 map[row:b seat:1] - {bmc: address: ipmi://192.0.2.2 credentialsName: s bootMode: UEFI description: 2024-06-01 online: true rootDeviceHints: serialNumber: 2021-03-04}`,
		},
		"eks-anywhere.csv": {`metal3/eksa-cp-1 map[rack:7 type:cp] - {bmc: address: 192.0.2.1 credentialsName: eksa-cp-1-bmc-secret bootMACAddress: 00:00:5e:00:53:01 online: true rootDeviceHints: deviceName: /dev/sda} metal3/eksa-cp-1-bmc-secret root pw`},
		"install-config.yaml": {
			`metal3/master-0 map[installer.openshift.io/role:control-plane rack:7 row:08] map[example.org/asset:0042] {bmc: address: redfish-virtualmedia://192.0.2.1/redfish/v1/Systems/1 credentialsName: master-0-bmc-secret disableCertificateVerification: true bootMACAddress: 00:00:5e:00:53:01 bootMode: UEFI online: true rootDeviceHints: minSizeGigabytes: 20 rotational: false} metal3/master-0-bmc-secret admin 0123`,
			`metal3/worker-0 - - {bmc: address: ipmi://192.0.2.2 credentialsName: worker-0-bmc-secret bootMACAddress: 00:00:5e:00:53:02 bootMode: legacy online: true} metal3/worker-0-bmc-secret admin pw`,
		},
		"machines.json": {`metal3/j-1 map[rack:7] - {bmc: address: ipmi://192.0.2.1 credentialsName: j-1-bmc-secret online: true} metal3/j-1-bmc-secret admin 12.50`},
		"excel.csv": {
			`metal3/e-1 - - {bmc: address: 192.0.2.1 credentialsName: e-1-bmc-secret bootMACAddress: 00:00:5e:00:53:01 online: true} metal3/e-1-bmc-secret admin a;"b"`,
			`metal3/e-2 - - {bmc: address: 192.0.2.2 credentialsName: e-2-bmc-secret bootMACAddress: 00:00:5e:00:53:02 online: false} metal3/e-2-bmc-secret admin p w`,
		},
		"unicode.txt":    {`metal3/u-1 - - {bmc: address: ipmi://192.0.2.1 credentialsName: u-1-bmc-secret bootMACAddress: 00:00:5E:00:53:01 online: true} metal3/u-1-bmc-secret admin päss`},
		"unicode-be.txt": {`metal3/u-1 - - {bmc: address: ipmi://192.0.2.1 credentialsName: u-1-bmc-secret online: true} metal3/u-1-bmc-secret admin päss`},
		"mac-lines.csv":  {`metal3/r-1 - - {bmc: address: ipmi://192.0.2.1 credentialsName: r-1-bmc-secret online: true} metal3/r-1-bmc-secret admin p,w`},
		"terminal.list":  {`metal3/t-1 - - {bmc: address: ipmi://192.0.2.1 credentialsName: t-1-bmc-secret online: true} metal3/t-1-bmc-secret admin pa"ss`},
	} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		_, mistakes, objects := read(t, string(data))
		if len(mistakes) > 0 {
			t.Errorf("%s: mistakes %q", name, mistakes)
		}
		if diff := gocmp.Diff(want, summary(t, objects)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestSecretsOnlyOnce: a Secret that several hosts use is applied with the first one that has no mistake.
func TestSecretsOnlyOnce(t *testing.T) {
	_, mistakes, objects := read(t, `
{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {username: a, password: b}}
---
{apiVersion: metal3.io/v1alpha1, kind: BareMetalHost, metadata: {name: h-0}, spec: {bmc: {address: "nonsense://x", credentialsName: s}}}
---
{apiVersion: metal3.io/v1alpha1, kind: BareMetalHost, metadata: {name: h-1}, spec: {bmc: {address: "ipmi://192.0.2.1", credentialsName: s}, userData: {name: s}}}
---
{apiVersion: metal3.io/v1alpha1, kind: BareMetalHost, metadata: {name: h-2}, spec: {bmc: {address: "ipmi://192.0.2.2", credentialsName: s}}}
`)
	if len(mistakes) != 1 || len(objects) != 2 || len(objects[0].Secrets) != 1 || len(objects[1].Secrets) != 0 {
		t.Errorf("mistakes %q, objects %+v", mistakes, objects)
	}
}

// TestPullSecret: the Secret for the registry of an image is one that the host names.
func TestPullSecret(t *testing.T) {
	_, mistakes, objects := read(t, `
{apiVersion: v1, kind: Secret, metadata: {name: registry}, type: kubernetes.io/dockerconfigjson, stringData: {.dockerconfigjson: '{"auths":{}}'}}
---
{apiVersion: metal3.io/v1alpha1, kind: BareMetalHost, metadata: {name: h}, spec: {bmc: {address: "ipmi://192.0.2.1", credentialsName: s}, image: {url: "oci://registry.example.org/os:1", ociAuthSecretName: registry}}}
`)
	if len(mistakes) > 0 || len(objects) != 1 || len(objects[0].Secrets) != 1 || objects[0].Secrets[0].Type != corev1.SecretTypeDockerConfigJson {
		t.Errorf("mistakes %q, objects %+v", mistakes, objects)
	}
}
