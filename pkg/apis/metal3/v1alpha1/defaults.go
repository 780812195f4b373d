package v1alpha1

import "k8s.io/apimachinery/pkg/runtime"

// Defaults that are a plain value stand beside their field as a +default tag,
// where OpenAPI and kubectl explain show them. Here are those that depend on
// another field.

func addDefaultingFuncs(scheme *runtime.Scheme) error {
	return RegisterDefaults(scheme)
}

// SetDefaults_HostPowerSpec makes power off and reboot soft unless the user
// says otherwise. Power on has no mode.
func SetDefaults_HostPowerSpec(spec *HostPowerSpec) {
	if spec.Mode == "" && (spec.Action == PowerActionOff || spec.Action == PowerActionReboot) {
		spec.Mode = PowerModeSoft
	}
}
