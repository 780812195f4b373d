// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"

	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/hosts"
)

var powerActions = []string{string(metal3.PowerActionOn), string(metal3.PowerActionOff), string(metal3.PowerActionReboot)}

func newPowerCommand(s *session) *cobra.Command {
	f := &actionFlags{session: s, canWait: true}
	mode := ""
	cmd := &cobra.Command{
		Use:     "power (on | off | reboot) (NAME... | -l LABELS | --all)",
		GroupID: groupAct,
		Short:   "Switch hosts on or off, or reboot them",
		Long: `Switches hosts on or off, or reboots them (POST to the subresource power).

on and off also set spec.online, so that nothing undoes them. off and reboot ask the running system to shut
down; with --mode hard, the power is cut.`,
		Example: `  kubectl bmh power off worker-0 --mode hard
  kubectl bmh power reboot -l rack=7 --wait
  kubectl bmh power on --all --dry-run=server`,
		Args: cobra.MinimumNArgs(1),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return withPrefix(powerActions, prefix), cobra.ShellCompDirectiveNoFileComp
			}
			return s.completeHosts(1)(cmd, args, prefix)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains(powerActions, args[0]) {
				return fmt.Errorf("the first argument must be one of %s, not %q", strings.Join(powerActions, ", "), args[0])
			}
			if err := checkOneOf("--mode", mode, "", string(metal3.PowerModeSoft), string(metal3.PowerModeHard)); err != nil {
				return err
			}
			return f.run(cmd.Context(), args[1:], powerAction(metal3.PowerAction(args[0]), metal3.PowerMode(mode)))
		},
	}
	f.addFlags(cmd)
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
		a.destroys = "reboots"
	}
	return a
}
