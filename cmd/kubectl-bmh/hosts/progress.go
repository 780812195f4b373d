// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"fmt"
	"strings"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// Progress is what Ironic does with a host at the moment, as far as Ironic tells.
type Progress struct {
	// Activity is one word, such as clean, deploy or inspect. It is empty while Ironic does
	// nothing with the node.
	Activity string
	// Step is the step that runs, without the interface it belongs to, for example
	// erase_devices. It is empty while Ironic boots the ramdisk.
	Step string
	// Index counts the step from 1, and Count is how many there are. Both are 0 if that is
	// not known.
	Index, Count int
}

// activities are the flows that Ironic runs, by the provision states of a node.
var activities = map[string]string{
	"verifying":      "verify",
	"inspecting":     "inspect",
	"inspect wait":   "inspect",
	"cleaning":       "clean",
	"clean wait":     "clean",
	"clean hold":     "clean",
	"deploying":      "deploy",
	"wait call-back": "deploy",
	"deploy hold":    "deploy",
	"servicing":      "service",
	"service wait":   "service",
	"service hold":   "service",
	"deleting":       "undeploy",
	"adopting":       "adopt",
	"rescuing":       "rescue",
	"rescue wait":    "rescue",
	"unrescuing":     "unrescue",
}

// ProgressOf returns what Ironic does with the host.
func ProgressOf(host *metal3.BareMetalHost) Progress {
	ironic := host.Status.Ironic
	if ironic == nil {
		return Progress{}
	}
	p := Progress{Activity: activities[ironic.ProvisionState]}
	if p.Activity == "" {
		return p
	}
	p.Step = ironic.Step[strings.IndexByte(ironic.Step, '.')+1:]
	if ironic.StepCount > 0 && ironic.StepIndex > 0 {
		p.Index, p.Count = ironic.StepIndex, ironic.StepCount
	}
	return p
}

// String returns for example "clean 2/3 erase_devices".
func (p Progress) String() string {
	words := []string{p.Activity}
	if p.Count > 0 {
		words = append(words, fmt.Sprintf("%d/%d", p.Index, p.Count))
	}
	if p.IsStepNamed() {
		words = append(words, p.Step)
	}
	return strings.Join(words, " ")
}

// IsStepNamed reports whether there is a step whose name says more than the activity does. The first step of a deployment is
// called deploy.
func (p Progress) IsStepNamed() bool { return p.Step != "" && p.Step != p.Activity }

// Fraction returns how much of the steps is done, and whether that is known. A step that runs
// counts for half of itself, so that the first one shows, too.
func (p Progress) Fraction() (float64, bool) {
	if p.Count <= 0 || p.Index <= 0 {
		return 0, false
	}
	return min(1, (float64(p.Index)-0.5)/float64(p.Count)), true
}
