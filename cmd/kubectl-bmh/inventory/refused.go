// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// asCSV says how a spreadsheet is made readable.
const asCSV = "save the sheet with the machines as CSV (UTF-8), and give that"

// refused is a kind of file that is no list of machines: what it is, and what to do with it.
type refused[T any] struct {
	fits   func(T) bool
	is, do string
}

// refusedFiles are told by their bytes. The first that fits counts.
var refusedFiles = []refused[[]byte]{
	{both(begins(zip), contains(`application/vnd\.oasis\.opendocument`)), "a spreadsheet of LibreOffice", asCSV},
	{both(begins(zip), contains(`\[Content_Types\]\.xml|xl/|docProps/|_rels/`)), "an Excel workbook", asCSV},
	{begins(zip), "a ZIP archive or an Excel workbook", "unpack it, or " + asCSV},
	{begins("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"), "an old Excel workbook", asCSV},
	{begins("\x1f\x8b"), "compressed by gzip", "pipe it: gunzip -c FILE | kubectl bmh create -f -"},
	{begins("\xfd7zXZ", "\x28\xb5\x2f\xfd", "BZh", "7z\xbc\xaf"), "compressed", "unpack it first"},
	{begins("%PDF-"), "a PDF document", "export the table that it was made of as CSV"},
	{begins("<!doctype html", "<html", "<head"), "an HTML page, perhaps the login page of the site that it was downloaded from", "download it again while you are logged in"},
	{begins("<?xml"), "XML", asCSV},
	{begins("$ansible_vault;"), "encrypted by Ansible Vault", "decrypt it: ansible-vault view FILE | kubectl bmh create -f -"},
	{begins("-----begin ", "ssh-"), "a key, a certificate or a message that is encrypted", "give a list of machines"},
	{begins("version https://git-lfs."), "a pointer of Git LFS, and not the file itself", "get the file with git lfs pull"},
	{begins("#!"), "a script", "run it, and give what it prints"},
	{begins("#cloud-config"), "a configuration of cloud-init", "give a list of machines; user data goes into a Secret that a host names in userData"},
	{contains(`(?m)^(?:<{7}|>{7}) `), "a file with an unsolved conflict of git", "solve it first"},
	{firstLine(`^\[[\w.:-]+\]\s*(?:[#;].*)?$|\sansible_\w+=`), "an inventory of Ansible, or another INI file", "write its machines and their BMCs into a CSV file"},
}

const zip = "PK\x03\x04"

// begins returns what reports whether a file begins with one of these. Space before it and case do not matter.
func begins(prefixes ...string) func([]byte) bool {
	return func(data []byte) bool {
		data = bytes.TrimSpace(data[:min(len(data), 4096)])
		return slices.ContainsFunc(prefixes, func(prefix string) bool {
			return len(data) >= len(prefix) && strings.EqualFold(string(data[:len(prefix)]), prefix)
		})
	}
}

// contains returns what reports whether the first part of a file has a match.
func contains(expression string) func([]byte) bool {
	compiled := regexp.MustCompile(expression)
	return func(data []byte) bool { return compiled.Match(data[:min(len(data), 64<<10)]) }
}

// firstLine returns what reports whether the first line that is no comment matches.
func firstLine(expression string) func([]byte) bool {
	compiled := regexp.MustCompile(expression)
	return func(data []byte) bool { return compiled.Match([]byte(firstLineOf(data))) }
}

func both(a, b func([]byte) bool) func([]byte) bool {
	return func(data []byte) bool { return a(data) && b(data) }
}

// refusedDocuments are documents of YAML or JSON that are told by their keys.
var refusedDocuments = []refused[*yaml.Node]{
	{has("kind=Config", "contexts"), "a kubeconfig", "give it with --kubeconfig, and a list of machines with -f"},
	{has("kind=Kustomization"), "a kustomization", "pipe what it makes: kubectl kustomize DIR | kubectl bmh create -f -"},
	{has("kind=Status", "apiVersion=v1"), "the error message of a Kubernetes server", "read what it says, and get the file again"},
	{has("kind=AgentConfig"), "an agent-config of OpenShift's installer, which has no addresses of BMCs", "give install-config.yaml, if it has platform.baremetal.hosts, or a CSV file"},
	{isInstallConfigOnly, "an install-config of OpenShift without platform.baremetal.hosts", "add the hosts and their BMCs, or give a CSV file"},
	{has("sops"), "encrypted by SOPS", "decrypt it: sops -d FILE | kubectl bmh create -f -"},
	{has("chassis"), "a file for openstack baremetal create", "create its nodes in Ironic with that, and make hosts of them with kubectl bmh adopt"},
	{isNodeList, "what openstack baremetal node list has printed, which has no addresses of BMCs", "make hosts of the nodes with kubectl bmh adopt"},
	{isShownNode, "what Ironic shows of nodes, without the passwords of their BMCs", "make hosts of the nodes with kubectl bmh adopt"},
	{isBifrost, "an inventory of Bifrost", "write its machines and their BMCs into a CSV file with name, address, username, password and bootMACAddress"},
	{isInstackenv, "an instackenv.json of TripleO", "write its nodes into a CSV file with name, address, username, password and bootMACAddress"},
	{isMAAS, "a list of MAAS's machines, without the passwords of their BMCs", "write the machines and their BMCs into a CSV file with name, address, username, password and bootMACAddress"},
	{isPlaybook, "a playbook of Ansible", "give a list of machines"},
	{isAnsible, "an inventory of Ansible", "write its machines and their BMCs into a CSV file"},
}

// has returns what reports whether a document has keys, or values for them.
func has(keys ...string) func(*yaml.Node) bool {
	return func(root *yaml.Node) bool {
		for _, key := range keys {
			key, value, hasValue := strings.Cut(key, "=")
			if child(root, key) == nil || hasValue && wordAt(root, key) != value {
				return false
			}
		}
		return true
	}
}

func isInstallConfigOnly(root *yaml.Node) bool {
	return has("baseDomain", "platform")(root) && !isInstallConfig(root)
}

func isInstackenv(root *yaml.Node) bool {
	nodes := child(root, "nodes")
	return isList(nodes) && len(nodes.Content) > 0 && child(resolved(nodes.Content[0]), "pm_type") != nil
}

func isNodeList(root *yaml.Node) bool {
	return isList(root) && len(root.Content) > 0 && child(resolved(root.Content[0]), "UUID") != nil && child(resolved(root.Content[0]), "Provisioning State") != nil
}

// isShownNode reports whether a document is a node as openstack baremetal node show prints it and the API returns it, or a list of such nodes.
func isShownNode(root *yaml.Node) bool {
	if isMap(root) && child(root, "driver_info") != nil {
		return true
	}
	return isNodes(root) && len(nodesOf(root)) > 0 && child(resolved(nodesOf(root)[0]), "provision_state") != nil
}

// isBifrost reports whether a document has nodes by their names, as Bifrost's baremetal.yml and baremetal.json do.
func isBifrost(root *yaml.Node) bool {
	if !isMap(root) || len(root.Content) == 0 {
		return false
	}
	first := resolved(root.Content[1])
	return isMap(first) && child(first, "driver_info") != nil
}

// isMAAS reports whether a document is a machine as maas prints it (machine read), or a list of such machines (machines read).
func isMAAS(root *yaml.Node) bool {
	if isList(root) && len(root.Content) > 0 {
		root = resolved(root.Content[0])
	}
	return has("system_id", "power_type")(root)
}

func isPlaybook(root *yaml.Node) bool {
	if !isList(root) || len(root.Content) == 0 {
		return false
	}
	play := resolved(root.Content[0])
	return child(play, "hosts") != nil && (child(play, "tasks") != nil || child(play, "roles") != nil)
}

// isAnsible reports whether a document has groups with hosts or groups, by their names.
func isAnsible(root *yaml.Node) bool {
	if !isMap(root) {
		return false
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		group := resolved(root.Content[i+1])
		if isMap(child(group, "hosts")) || isMap(child(group, "children")) || isMap(child(group, "hostvars")) {
			return true
		}
	}
	return false
}

// refuse returns an error that says what something is and what to do, if it is known and no list of machines.
func refuse[T any](table []refused[T], it T) error {
	for _, known := range table {
		if known.fits(it) {
			return fmt.Errorf("this is %s: %s", known.is, known.do)
		}
	}
	return nil
}
