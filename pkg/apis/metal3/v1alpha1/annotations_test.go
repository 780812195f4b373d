// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// TestStatusOfLaterServer: a copy of the status of a host of a later server says what the host runs, also if this one does not know
// all of what was recorded there.
func TestStatusOfLaterServer(t *testing.T) {
	for name, test := range map[string]struct {
		rest     string // of the status
		rebooted map[string]string
		refused  bool
	}{
		"without a record":                 {rest: ``},
		"a record":                         {rest: `,"record":{"epoch":6,"rebooted":{"reboot.metal3.io":""}}`, rebooted: map[string]string{"reboot.metal3.io": ""}},
		"a later record":                   {rest: `,"record":{"epoch":7,"colour":"red","rebooted":{"reboot.metal3.io":""}}`, rebooted: map[string]string{"reboot.metal3.io": ""}},
		"a record of another form":         {rest: `,"record":{"rebooted":["reboot.metal3.io"]}`},
		"no object":                        {rest: `,"record":null,"ironic":null`},
		"later fields of ironic":           {rest: `,"ironic":{"nodeUUID":"a","colour":"red"}`},
		"ironic of another form":           {rest: `,"ironic":"a"`},
		"a later field":                    {rest: `,"colour":"red"`, refused: true},
		"a field that is there twice":      {rest: `,"poweredOn":true,"poweredOn":false`, refused: true},
		"a field of the provisioned image": {rest: `,"lastAttemptedImage":{"url":"a","colour":"red"}`, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			status, err := v1alpha1.ParseStatusAnnotation(`{"provisioning":{"state":"provisioned","ID":"a","image":{"url":"b"}}` + test.rest + `}`)
			if (err != nil) != test.refused {
				t.Fatalf("%v, want that it is refused: %v", err, test.refused)
			}
			if err != nil {
				return
			}
			if status.Provisioning.State != v1alpha1.StateProvisioned || status.Provisioning.Image.URL != "b" || status.Ironic != nil {
				t.Errorf("%+v", status)
			}
			if diff := cmp.Diff(test.rebooted, status.Record.Rebooted); diff != "" {
				t.Errorf("rebooted (-want +got):\n%s", diff)
			}
		})
	}
}
