// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"go.yaml.in/yaml/v3"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
)

const noSuchNodeField = "no host can have this; remove it, or create the node in Ironic and make a host of it with kubectl bmh adopt"

// isNodes reports whether a document is a list of Ironic's nodes, as metal3-dev-env writes it to ironic_nodes.json, or that list alone.
func isNodes(root *yaml.Node) bool {
	return isList(child(root, "nodes")) || isList(root) && len(root.Content) > 0 && child(resolved(root.Content[0]), "driver_info") != nil
}

func nodesOf(root *yaml.Node) []*yaml.Node {
	if isList(root) {
		return root.Content
	}
	return child(root, "nodes").Content
}

func readNodes(roots []*yaml.Node, _ string) (entries []Entry, mistakes []*LineError, err error) {
	for _, root := range roots {
		if !isNodes(root) {
			mistakes = append(mistakes, &LineError{Line: root.Line, Err: errors.New("this document has no list of nodes, as the first has"), IsOther: true})
			continue
		}
		for _, item := range nodesOf(root) {
			entry, err := readIronicNode(item)
			if err != nil {
				mistakes = append(mistakes, &LineError{Line: item.Line, Name: entry.Name, Err: err})
				continue
			}
			entries = append(entries, entry)
		}
	}
	return entries, mistakes, nil
}

// nodeAccess is what a node says about its BMC. The keys with a prefix are Ironic's; those without are metal3-dev-env's, whose
// address is that of a BareMetalHost.
type nodeAccess struct {
	driver, bootInterface            string
	address, port                    string
	ipmiAddress, ipmiPort, ipmiLevel string
	redfishAddress, redfishSystem    string
	username, password, verifyCA     string
	insecure                         bool
}

func readIronicNode(item *yaml.Node) (Entry, error) {
	entry, a := newEntry(item.Line), nodeAccess{}
	err := fieldsOf(resolved(item), setters{
		"name": toText(&entry.Name), "description": toText(&entry.Spec.Description),
		"driver": toText(&a.driver), "boot_interface": toText(&a.bootInterface),
		"uuid": nil, "resource_class": nil,
		"driver_info": func(info *yaml.Node) error { return fieldsOf(info, a.setters(), noSuchNodeField) },
		"properties":  func(p *yaml.Node) error { return readProperties(p, &entry.Spec) },
		"ports":       func(ports *yaml.Node) (err error) { entry.Spec.BootMACAddress, err = bootPort(ports); return err },
	}, noSuchNodeField)
	address, addressErr := a.hostAddress()
	entry.Spec.BMC.Address, entry.Username, entry.Password = address, a.username, a.password
	entry.Spec.BMC.DisableCertificateVerification = a.insecure
	if info := child(resolved(item), "driver_info"); child(info, "redfish_verify_ca") != nil || child(info, "disable_certificate_verification") != nil {
		entry.Given.Insert("disableCertificateVerification")
	}
	if a.verifyCA != "" {
		verify, err := parseBool(a.verifyCA)
		if err != nil {
			addressErr = join(addressErr, errors.New("redfish_verify_ca must be True or False: a file with a CA is for Ironic, which can be told of it for all BMCs"))
		} else if !verify {
			entry.Spec.BMC.DisableCertificateVerification = true
		}
	}
	return entry, join(err, addressErr)
}

func (a *nodeAccess) setters() setters {
	return setters{
		"address": toText(&a.address), "port": toText(&a.port), "username": toText(&a.username), "password": toText(&a.password),
		"ipmi_address": toText(&a.ipmiAddress), "ipmi_port": toText(&a.ipmiPort), "ipmi_priv_level": toText(&a.ipmiLevel),
		"ipmi_username": toText(&a.username), "ipmi_password": toText(&a.password),
		"redfish_address": toText(&a.redfishAddress), "redfish_system_id": toText(&a.redfishSystem), "redfish_verify_ca": toText(&a.verifyCA),
		"redfish_username": toText(&a.username), "redfish_password": toText(&a.password),
		"disable_certificate_verification": toBool(&a.insecure), // dev-scripts'
		// The server tells Ironic which ramdisk to boot.
		"deploy_kernel": nil, "deploy_ramdisk": nil, "rescue_kernel": nil, "rescue_ramdisk": nil, "bootloader": nil,
	}
}

// bootSchemes are the types of an address for the boot interfaces that one can ask for.
var bootSchemes = map[string]string{
	"redfish-virtual-media": "redfish-virtualmedia", "redfish-https": "redfish-uefihttp", "idrac-redfish-virtual-media": "idrac-virtualmedia",
}

// hostAddress returns the address that a BareMetalHost has for a node.
func (a *nodeAccess) hostAddress() (string, error) {
	if strings.Contains(a.address, "://") {
		return a.address, nil
	}
	switch a.driver {
	case "ipmi":
		address := bmc.AddressOf(a.driver, "", "", cmp.Or(a.ipmiAddress, a.address), cmp.Or(a.ipmiPort, a.port))
		if address != "" && a.ipmiLevel != "" {
			address += "?privilegelevel=" + url.QueryEscape(a.ipmiLevel)
		}
		return addressOr(address, "ipmi_address")
	case "redfish", "idrac", "redfish-virtualmedia", "redfish-uefihttp": // the last two are metal3-dev-env's
		system := a.redfishSystem
		if system != "" && !strings.Contains(system, "/") {
			system = "/redfish/v1/Systems/" + system
		}
		driver := "redfish"
		if a.driver == "idrac" {
			driver = a.driver
		}
		address := bmc.AddressOf(driver, cmp.Or(a.redfishAddress, a.address), system, "", "")
		scheme := bootSchemes[a.bootInterface]
		if strings.HasPrefix(a.driver, "redfish-") {
			scheme = a.driver
		}
		if before, rest, found := strings.Cut(address, "://"); found && scheme != "" {
			if strings.HasSuffix(before, "+http") {
				scheme += "+http"
			}
			address = scheme + "://" + rest
		}
		return addressOr(address, "redfish_address")
	case "":
		return "", errors.New("it has no driver")
	}
	return "", fmt.Errorf("the driver %q is none that a host can have; those are ipmi, redfish and idrac (with Redfish)", a.driver)
}

func addressOr(address, key string) (string, error) {
	if address == "" {
		return "", fmt.Errorf("driver_info.%s is missing, or none that a host can have", key)
	}
	return address, nil
}

// bootPort returns the address of the first port that the node boots from.
func bootPort(ports *yaml.Node) (mac string, err error) {
	if isNull(ports) {
		return "", nil
	}
	if !isList(ports) {
		return "", errors.New("must be a list")
	}
	for _, port := range ports.Content {
		boots := true
		address := child(resolved(port), "address")
		if pxe := child(resolved(port), "pxe_enabled"); pxe != nil {
			err = toBool(&boots)(pxe)
		}
		if err == nil && boots && address != nil {
			return scalar(address)
		}
	}
	return "", err
}

// readProperties takes over what a host is told. Its size is found by the inspection.
func readProperties(node *yaml.Node, spec *metal3.BareMetalHostSpec) error {
	return fieldsOf(node, setters{
		"cpu_arch": toText(&spec.Architecture), "capabilities": func(c *yaml.Node) error { return readCapabilities(c, spec) },
		"root_device": func(hints *yaml.Node) error { return readRootDevice(hints, spec) },
		"boot_mode":   func(mode *yaml.Node) error { return readBootMode(mode, spec) }, // dev-scripts'
		"local_gb":    nil, "cpus": nil, "memory_mb": nil, "vendor": nil,
	}, noSuchNodeField)
}

func readBootMode(node *yaml.Node, spec *metal3.BareMetalHostSpec) error {
	mode, err := scalar(node)
	if err != nil || mode == "" {
		return err
	}
	switch strings.ToLower(mode) {
	case "uefi":
		spec.BootMode = metal3.UEFI
	case "uefisecureboot":
		spec.BootMode = metal3.UEFISecureBoot
	case "legacy", "bios":
		spec.BootMode = metal3.Legacy
	default:
		return errors.New("must be UEFI, UEFISecureBoot or legacy")
	}
	return nil
}

// readCapabilities reads how the node boots, from a mapping or from text such as boot_mode:uefi,secure_boot:true. The other
// capabilities are for OpenStack's scheduler.
func readCapabilities(node *yaml.Node, spec *metal3.BareMetalHostSpec) error {
	values := map[string]string{}
	if node.Kind == yaml.ScalarNode {
		for pair := range strings.SplitSeq(node.Value, ",") {
			key, value, _ := strings.Cut(pair, ":")
			values[strings.TrimSpace(key)] = strings.TrimSpace(value)
		}
	} else if err := toMap(&values)(node); err != nil {
		return err
	}
	isSecure, _ := parseBool(values["secure_boot"])
	switch {
	case isSecure:
		spec.BootMode = metal3.UEFISecureBoot
	case values["boot_mode"] == "bios":
		spec.BootMode = metal3.Legacy
	case values["boot_mode"] == "uefi":
		spec.BootMode = metal3.UEFI
	}
	return nil
}
