// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"testing"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

func TestValidateHardwareData(t *testing.T) {
	data := func(mac string) *v1alpha1.HardwareData {
		return &v1alpha1.HardwareData{Spec: v1alpha1.HardwareDataSpec{
			HardwareDetails: &v1alpha1.HardwareDetails{NIC: []v1alpha1.NIC{{MAC: mac}}},
		}}
	}
	good, bad, other := data("52:54:00:8b:0d:5b"), data("eth0"), data("eth1")
	tests := []struct {
		name      string
		data, old *v1alpha1.HardwareData
		want      []string
	}{
		{"new", good, nil, nil},
		{"new, empty", &v1alpha1.HardwareData{}, nil, nil},
		{"new, wrong", bad, nil, []string{"spec.hardware.nics[0].mac"}},
		{"becomes wrong", bad, good, []string{"spec.hardware.nics[0].mac"}},
		{"wrong before", bad, bad, nil},
		{"wrong before, and now in another way", other, bad, []string{"spec.hardware.nics[0].mac"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { expect(t, ValidateHardwareData(test.data, test.old), test.want...) })
	}
}
