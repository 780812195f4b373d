// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"cmp"
	"fmt"
	"strings"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
)

// uniqueness has the machines by what no other may have.
type uniqueness map[string]*Entry

// check refuses a machine that is there twice. Two hosts with one BMC would wait for each
// other for ever.
func (u uniqueness) check(e *Entry) error {
	bootMAC := metal3.BareMetalHostSpec{BootMACAddress: macKey(e.Spec.BootMACAddress)}
	errs := []error{
		u.add(e, "name", e.Name, "name", e.Namespace+"/"+e.Name),
		u.add(e, "bootMACAddress", bootMAC.BootMAC(), "MAC", bootMAC.BootMACAddress),
	}
	access, err := bmc.Parse(e.Spec.BMC.Address, false)
	if err != nil { // which is told by the rules of the server
		return join(errs...)
	}
	// However it is spelt: ipmi://192.0.2.1:623 is 192.0.2.1.
	key := access.Key()
	for _, value := range key.LookupValues() {
		if first := u["BMC "+value]; first != nil {
			return join(append(errs, sameAs(first, "BMC"))...)
		}
	}
	for _, value := range key.IndexValues() {
		u["BMC "+value] = e
	}
	return join(errs...)
}

// add returns an error if another machine has the key. The value is empty if the machine has none.
func (u uniqueness) add(e *Entry, field, value, kind, key string) error {
	if value == "" {
		return nil
	}
	if first := u[kind+" "+key]; first != nil {
		return sameAs(first, field)
	}
	u[kind+" "+key] = e
	return nil
}

func sameAs(first *Entry, field string) error {
	return fmt.Errorf("it has the same %s as %s in line %d", field, cmp.Or(first.Name, "the one"), first.Line)
}

func macKey(mac string) string {
	clean, err := cleanMAC(mac)
	if err != nil {
		return mac
	}
	return strings.ToLower(clean)
}
