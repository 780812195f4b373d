// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// readRootDevice reads the root device hints of a node. Ironic's hint says how the value is compared, and is equality without that; each
// hint of a host is compared in one way (deploy.RootDevice). One that would choose other disks for a host than for the node is a mistake.
func readRootDevice(node *yaml.Node, spec *metal3.BareMetalHostSpec) error {
	if isNull(node) {
		return nil
	}
	hints := &metal3.RootDeviceHints{}
	spec.RootDeviceHints = hints
	return fieldsOf(node, setters{
		"name": equalHint(&hints.DeviceName), "by_path": equalHint(&hints.DeviceName), "hctl": equalHint(&hints.HCTL), "serial": equalHint(&hints.SerialNumber),
		"wwn": equalHint(&hints.WWN), "wwn_with_extension": equalHint(&hints.WWNWithExtension), "wwn_vendor_extension": equalHint(&hints.WWNVendorExtension),
		"model": partHint(&hints.Model), "vendor": partHint(&hints.Vendor), "size": sizeHint(&hints.MinSizeGigabytes),
		"rotational": func(value *yaml.Node) error {
			rotational := false
			if err := toBool(&rotational)(value); err != nil || isNull(value) {
				return err
			}
			hints.Rotational = &rotational
			return nil
		},
	}, noSuchNodeField)
}

// hintOperators are those of Ironic, longer ones first.
var hintOperators = []string{"<all-in>", "<in>", "<or>", "s==", "s!=", "s>=", "s<=", "s>", "s<", "==", "!=", ">=", "<=", ">", "<", "="}

// hintOf returns a hint of a node and its operator, which is empty if there is none.
func hintOf(node *yaml.Node) (operator, value string, err error) {
	value, err = scalar(node)
	value = strings.TrimSpace(value)
	for _, known := range hintOperators {
		if rest, found := strings.CutPrefix(value, known); found {
			return known, strings.TrimSpace(rest), err
		}
	}
	return "", value, err
}

// equalHint sets a hint by which a disk is the one that has the value.
func equalHint(into *string) func(*yaml.Node) error {
	return func(node *yaml.Node) error {
		operator, value, err := hintOf(node)
		switch {
		case err != nil:
		case operator != "" && operator != "s==":
			err = fmt.Errorf("a host can only have the value that the disk has, and no %q", operator)
		case *into != "": // by name and by path
			err = errors.New("a host can have only one name of a disk")
		}
		*into = value
		return err
	}
}

// partHint sets a hint by which a disk has the value as a part.
func partHint(into *string) func(*yaml.Node) error {
	return func(node *yaml.Node) error {
		operator, value, err := hintOf(node)
		if err == nil && value != "" && operator != "<in>" {
			err = errors.New("Ironic compares it in another way than for a host, for which it is a part of what the disk has: write <in> in front, if that is right")
		}
		*into = value
		return err
	}
}

// sizeHint sets the least size.
func sizeHint(into *int) func(*yaml.Node) error {
	return func(node *yaml.Node) error {
		operator, value, err := hintOf(node)
		if err != nil || value == "" {
			return err
		}
		if operator != ">=" {
			return errors.New("a host can only have the least size, in GiB, and this is another condition: write >= in front, if that is right")
		}
		if *into, err = strconv.Atoi(value); err != nil {
			return errors.New("must be >= and a number of GiB")
		}
		return nil
	}
}
