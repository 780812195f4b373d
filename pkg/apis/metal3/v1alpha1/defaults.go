// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import "k8s.io/apimachinery/pkg/runtime"

// Defaults that are a constant are +default tags of their fields, so that OpenAPI and
// kubectl explain show them. This file has the defaults that depend on another field.

func addDefaultingFuncs(scheme *runtime.Scheme) error {
	return RegisterDefaults(scheme)
}

// SetDefaults_HostPowerSpec sets the mode of off and reboot to soft if the user has not set
// one. The action on has no mode.
func SetDefaults_HostPowerSpec(spec *HostPowerSpec) {
	if spec.Mode == "" && (spec.Action == PowerActionOff || spec.Action == PowerActionReboot) {
		spec.Mode = PowerModeSoft
	}
}
