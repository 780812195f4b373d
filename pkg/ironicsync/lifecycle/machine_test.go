package lifecycle

import (
	"slices"
	"testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// TestIsSameMachine: what tells machines apart is neither what their manufacturer has left as it was, nor what all BMCs
// have in common.
func TestIsSameMachine(t *testing.T) {
	host := func(serial, boot string, macs ...string) *metal3.BareMetalHost {
		h := &metal3.BareMetalHost{Spec: metal3.BareMetalHostSpec{BootMACAddress: boot}}
		if serial == "" && len(macs) == 0 {
			return h // not inspected
		}
		h.Status.HardwareDetails = &metal3.HardwareDetails{SystemVendor: metal3.HardwareSystemVendor{Manufacturer: "Contoso", ProductName: "2U", SerialNumber: serial}}
		for _, mac := range macs {
			h.Status.HardwareDetails.NIC = append(h.Status.HardwareDetails.NIC, metal3.NIC{MAC: mac})
		}
		return h
	}
	otherProduct := host("CZ1234567", "")
	otherProduct.Status.HardwareDetails.SystemVendor.ProductName = "1U"
	const a, b, c, d, usb = "00:25:90:00:00:01", "00:25:90:00:00:02", "00:25:90:00:00:03", "00:25:90:00:00:04", "02:25:90:00:00:09"
	tests := map[string]struct {
		one, other *metal3.BareMetalHost
		want       bool
	}{
		"one serial number":                  {host("CZ1234567", ""), host("cz1234567 ", ""), true},
		"one serial number, other cards":     {host("CZ1234567", "", a, b), host("CZ1234567", "", c, d), true},
		"another serial number":              {host("CZ1234567", ""), host("CZ1234568", ""), false},
		"another serial number, a card":      {host("CZ1234567", "", a, b), host("CZ1234568", "", a, b), false},
		"the serial number of other product": {host("CZ1234567", ""), otherProduct, false},
		"a placeholder":                      {host("To be filled by O.E.M.", ""), host("To be filled by O.E.M.", ""), false},
		"zeroes":                             {host("00000000", ""), host("00000000", ""), false},
		"no serial number, all cards":        {host("", "", a, b), host("Not Specified", "", b, "00:25:90:00:00:01"), true},
		"half of the cards":                  {host("", "", a, b), host("", "", b, c, d), true},
		"less than half":                     {host("", "", a, b, c), host("", "", c, d, "00:25:90:00:00:05"), false},
		"the BMC's own network":              {host("", "", a, usb), host("", "", b, usb), false},
		"one boot MAC address":               {host("", a), host("", "00:25:90:00:00:01"), true},
		"a boot MAC address of a card":       {host("", "00:25:90:00:00:0A"), host("CZ1234567", b, b, "00:25:90:00:00:0a", c), true},
		"another boot MAC address":           {host("", a), host("CZ1234567", b, b), false},
		"nothing is known":                   {host("", ""), host("", ""), false},
		"nothing is known of one":            {host("", ""), host("CZ1234567", a, a), false},
	}
	for name, test := range tests {
		if got := IsSameMachine(test.one, test.other); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
		if got := IsSameMachine(test.other, test.one); got != test.want {
			t.Errorf("%s, the other way round: %t", name, got)
		}
		found := slices.ContainsFunc(MachineKeys(test.one), func(key string) bool { return slices.Contains(MachineKeys(test.other), key) })
		if test.want && !found {
			t.Errorf("%s: they are not found by %q and %q", name, MachineKeys(test.one), MachineKeys(test.other))
		}
	}
}
