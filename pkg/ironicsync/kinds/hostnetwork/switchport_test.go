// SPDX-License-Identifier: Apache-2.0

package hostnetwork

import (
	"fmt"
	"strings"
	"testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// An inspection can find thousands of interfaces, and as many can be in the spec: for none of them, the others are collected.
func TestManyInterfaces(t *testing.T) {
	host := &metal3.BareMetalHost{Status: metal3.BareMetalHostStatus{HardwareDetails: &metal3.HardwareDetails{}}}
	for i := range 3_000 {
		host.Status.HardwareDetails.NIC = append(host.Status.HardwareDetails.NIC, metal3.NIC{Name: fmt.Sprintf("eth%d", i), MAC: fmt.Sprintf("52:54:00:00:%02x:%02x", i/256, i%256)})
	}
	nic := &metal3.NetworkInterface{Name: "eth2999"}
	if allocations := testing.AllocsPerRun(1, func() {
		if mac, err := macOf(host, nic); mac != "52:54:00:00:0b:b7" || err != nil {
			t.Errorf("%s, %v", mac, err)
		}
	}); allocations > 1 {
		t.Errorf("%v allocations", allocations)
	}
	_, err := macOf(host, &metal3.NetworkInterface{Name: "eth3000"})
	if err == nil || !strings.HasPrefix(err.Error(), "The host has no interface eth3000; it has eth0, eth1, ") || !strings.HasSuffix(err.Error(), ", eth49, 2950 more") {
		t.Errorf("%v", err)
	}
}
