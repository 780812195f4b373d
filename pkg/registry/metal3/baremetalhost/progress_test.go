// SPDX-License-Identifier: Apache-2.0

package baremetalhost

import (
	"testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// TestProgressNamesSteps: the first step of a deployment, which is called deploy, is not named twice.
func TestProgressNamesSteps(t *testing.T) {
	for want, status := range map[string]*metal3.IronicStatus{
		"":                       nil,
		"deploy":                 {Operation: "deploy", Step: "deploy.deploy"},
		"deploy 1/6":             {Operation: "deploy", Step: "deploy.deploy", StepIndex: 1, StepCount: 6},
		"deploy 2/6 write_image": {Operation: "deploy", Step: "deploy.write_image", StepIndex: 2, StepCount: 6},
		"clean":                  {Operation: "clean"},
	} {
		if got := progress(status); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
