// SPDX-License-Identifier: Apache-2.0

package lifecycle

import metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"

// IsEnrolling reports whether nothing but the verification of its BMC was done for a host.
func IsEnrolling(host *metal3.BareMetalHost) bool {
	switch host.Status.Provisioning.State {
	case metal3.StateNone, metal3.StateUnmanaged, metal3.StateRegistering:
		return true
	}
	return false
}
