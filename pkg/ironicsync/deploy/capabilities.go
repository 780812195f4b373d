// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"strings"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// Capabilities returns the node's properties/capabilities for a boot mode: what
// the inspection and others have put into existing, a list like
// "cpu_vt:true,boot_mode:uefi", with the items of the boot mode replaced. It
// returns existing itself where that says the right thing already.
func Capabilities(existing string, mode metal3.BootMode) string {
	ours := bootModeItems(mode)
	var others, boot []string
	for item := range strings.SplitSeq(existing, ",") {
		item = strings.TrimSpace(item)
		switch {
		case item == "":
		case strings.HasPrefix(item, "boot_mode:"), strings.HasPrefix(item, "secure_boot:"):
			boot = append(boot, item)
		default:
			others = append(others, item)
		}
	}
	if sameItems(boot, ours) {
		return existing
	}
	return strings.Join(append(others, ours...), ",")
}

func bootModeItems(mode metal3.BootMode) []string {
	switch mode {
	case metal3.Legacy:
		return []string{"boot_mode:bios"}
	case metal3.UEFISecureBoot:
		return []string{"boot_mode:uefi", "secure_boot:true"}
	}
	return []string{"boot_mode:uefi"}
}

// sameItems compares regardless of order.
func sameItems(a, b []string) bool {
	count := map[string]int{}
	for _, item := range a {
		count[item]++
	}
	for _, item := range b {
		count[item]--
	}
	for _, n := range count {
		if n != 0 {
			return false
		}
	}
	return true
}
