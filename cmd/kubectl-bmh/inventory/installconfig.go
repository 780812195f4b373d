// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"cmp"
	"errors"
	"slices"

	"go.yaml.in/yaml/v3"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// roleLabel is what OpenShift's installer labels the hosts of the control plane with.
const roleLabel = "installer.openshift.io/role"

// isInstallConfig reports whether a document is the install-config.yaml of OpenShift with hosts, or these hosts by themselves.
func isInstallConfig(root *yaml.Node) bool {
	_, found := installHosts(root)
	return found
}

// installHosts returns the hosts of an install-config. By themselves, they are told by their bmc, which has keys: in the list of this
// command it is another name of the address.
func installHosts(root *yaml.Node) (hosts []*yaml.Node, found bool) {
	if list := cmp.Or(child(root, "platform", "baremetal", "hosts"), child(root, "baremetal", "hosts")); isList(list) {
		return list.Content, true
	}
	hosts = machinesOf(root)
	return hosts, slices.ContainsFunc(hosts, func(host *yaml.Node) bool { return isMap(child(resolved(host), "bmc")) })
}

func readInstallConfig(roots []*yaml.Node, _ string) (entries []Entry, mistakes []*LineError, err error) {
	for _, root := range roots {
		hosts, found := installHosts(root)
		if !found {
			mistakes = append(mistakes, &LineError{Line: root.Line, Err: errors.New("this document has no hosts with a bmc, as the first has"), IsOther: true})
			continue
		}
		for _, item := range hosts {
			entry, err := readInstallHost(item)
			if err != nil {
				mistakes = append(mistakes, &LineError{Line: item.Line, Name: entry.Name, Err: err})
				continue
			}
			entries = append(entries, entry)
		}
	}
	return entries, mistakes, nil
}

func readInstallHost(item *yaml.Node) (Entry, error) {
	const noSuch = "this is no field of a host of an install-config"
	entry := newEntry(item.Line)
	item = resolved(item)
	entry.Given.Insert(keysOf(item)...)
	entry.Given.Insert(keysOf(child(item, "bmc"))...)
	spec, role := &entry.Spec, ""
	err := fieldsOf(item, setters{
		"name": toText(&entry.Name), "role": toText(&role), "bootMACAddress": toText(&spec.BootMACAddress), "bootMode": toText(&spec.BootMode),
		"hardwareProfile": checkProfile, "labels": toMap(&entry.Labels), "annotations": toMap(&entry.Annotations),
		"bmc": func(bmc *yaml.Node) error {
			return fieldsOf(bmc, setters{
				"address": toText(&spec.BMC.Address), "username": toText(&entry.Username), "password": toText(&entry.Password),
				"credentialsName": toText(&spec.BMC.CredentialsName), "disableCertificateVerification": toBool(&spec.BMC.DisableCertificateVerification),
			}, noSuch)
		},
		"rootDeviceHints": func(hints *yaml.Node) error {
			spec.RootDeviceHints = &metal3.RootDeviceHints{}
			return toStruct(spec.RootDeviceHints)(hints)
		},
		"networkConfig": func(config *yaml.Node) error {
			if isNull(config) {
				return nil
			}
			return errors.New("remove it if the machine gets its address by DHCP; otherwise write a BareMetalHost that names a Secret with the network in preprovisioningNetworkDataName")
		},
	}, noSuch)
	if role == "master" {
		if entry.Labels == nil {
			entry.Labels = map[string]string{}
		}
		entry.Labels[roleLabel] = "control-plane"
	}
	return entry, err
}

// checkProfile lets the profiles pass that select no disk. Of the others, nothing is left but that.
func checkProfile(node *yaml.Node) error {
	value, err := scalar(node)
	if err == nil && value != "" && value != "default" && value != "unknown" {
		err = errors.New("is deprecated: name the disk in rootDeviceHints instead")
	}
	return err
}
