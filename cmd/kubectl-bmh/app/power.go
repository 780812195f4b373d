// SPDX-License-Identifier: Apache-2.0

package app

import (
	"github.com/spf13/cobra"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"

	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/hosts"
)

func newPowerCommand(s *session) *cobra.Command {
	mode := ""
	words := []string{string(metal3.PowerActionOn), string(metal3.PowerActionOff), string(metal3.PowerActionReboot)}
	cmd := newWordCommand(&actionFlags{session: s, canWait: true}, "power", words, func(word string) (action, error) {
		err := checkOneOf("--mode", mode, "", string(metal3.PowerModeSoft), string(metal3.PowerModeHard))
		return powerAction(metal3.PowerAction(word), metal3.PowerMode(mode)), err
	})
	cmd.Short = "Switch hosts on or off, or reboot them"
	cmd.Long = `Switches hosts on or off, or reboots them (POST to the subresource power).

on and off also set spec.online, so that the server does not undo them. off and reboot ask the running system to shut
down; with --mode hard, the power is cut.`
	cmd.Example = `  kubectl bmh power off worker-0 --mode hard
  kubectl bmh power reboot -l rack=7 --wait
  kubectl bmh power on --all --dry-run=server`
	cmd.Flags().StringVar(&mode, "mode", "", "How off and reboot are done: soft or hard")
	completeFlag(cmd, "mode", completeWords(string(metal3.PowerModeSoft), string(metal3.PowerModeHard)))
	return cmd
}

func powerAction(what metal3.PowerAction, mode metal3.PowerMode) action {
	a := action{
		past:   "power " + string(what) + " requested",
		target: hosts.On,
		do:     post(hostClient.Power, &metal3.HostPower{Spec: metal3.HostPowerSpec{Action: what, Mode: mode}}, func(answer *metal3.HostPower) string { return answer.Status.Message }),
	}
	switch what {
	case metal3.PowerActionOff:
		a.destroys, a.target = "switches off", hosts.Off
	case metal3.PowerActionReboot:
		a.destroys, a.target = "reboots", hosts.Rebooted
	}
	return a
}
