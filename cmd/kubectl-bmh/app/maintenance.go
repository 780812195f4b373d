// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"

	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/hosts"
)

// newWordCommand returns a command whose first argument is one of some words.
func newWordCommand(f *actionFlags, name string, words []string, actionFor func(word string) (action, error)) *cobra.Command {
	cmd := &cobra.Command{
		Use:     fmt.Sprintf("%s (%s) (NAME... | -l LABELS | --all)", name, strings.Join(words, " | ")),
		GroupID: groupAct,
		Args:    cobra.MinimumNArgs(1),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return withPrefix(words, prefix), cobra.ShellCompDirectiveNoFileComp
			}
			return f.completeHosts(1)(cmd, args, prefix)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains(words, args[0]) {
				return fmt.Errorf("the first argument must be one of %s, not %q", strings.Join(words, ", "), args[0])
			}
			a, err := actionFor(args[0])
			if err != nil {
				return err
			}
			return f.run(cmd.Context(), args[1:], a)
		},
	}
	f.addFlags(cmd)
	return cmd
}

func newMaintenanceCommand(s *session) *cobra.Command {
	reason := ""
	cmd := newWordCommand(&actionFlags{session: s}, "maintenance", []string{string(metal3.MaintenanceActionOn), string(metal3.MaintenanceActionOff)}, func(word string) (action, error) {
		if on := word == string(metal3.MaintenanceActionOn); on != (reason != "") {
			return action{}, errors.New("--reason belongs to on, and is needed there: it tells others why the host is left alone")
		}
		return action{
			past: "maintenance " + word,
			do: post(hostClient.Maintenance, &metal3.HostMaintenance{Spec: metal3.HostMaintenanceSpec{Action: metal3.MaintenanceAction(word), Reason: reason}},
				func(answer *metal3.HostMaintenance) string { return answer.Status.Message }),
		}, nil
	})
	cmd.Short = "Have hosts left alone while somebody works on them, or end that"
	cmd.Long = "Puts hosts into maintenance or takes them out of it (POST to the subresource maintenance). Ironic and the server\ndo nothing with a host in maintenance."
	cmd.Example = "  kubectl bmh maintenance on worker-0 --reason 'replacing a fan'\n  kubectl bmh maintenance off worker-0"
	cmd.Flags().StringVar(&reason, "reason", "", "Why, for those who find the host in maintenance")
	return cmd
}

// indicatorStates are the states of a light by the words of the command.
var indicatorStates = map[string]metal3.IndicatorState{"on": metal3.IndicatorOn, "off": metal3.IndicatorOff, "blink": metal3.IndicatorBlinking}

func newLocateCommand(s *session) *cobra.Command {
	spec := metal3.HostIndicatorSpec{}
	cmd := newWordCommand(&actionFlags{session: s}, "locate", []string{"on", "off", "blink"}, func(word string) (action, error) {
		wanted := spec
		wanted.State = indicatorStates[word]
		return action{
			past: "light " + string(wanted.State),
			do:   post(hostClient.Indicator, &metal3.HostIndicator{Spec: wanted}, nil),
		}, nil
	})
	cmd.Short = "Switch the light by which a host is found in a rack"
	cmd.Long = "Switches a light of hosts, by which they are found in a rack (POST to the subresource indicator). The BMC is asked\nmeanwhile, which takes seconds."
	cmd.Example = "  kubectl bmh locate blink worker-0\n  kubectl bmh locate off worker-0"
	cmd.Flags().StringVar(&spec.Component, "component", "", "The component that has the light: system, chassis, disk, power or nic (default: system, or chassis)")
	cmd.Flags().StringVar(&spec.Name, "light", "", "The name of the light, if the component has several")
	return cmd
}

func newNMICommand(s *session) *cobra.Command {
	return newSimpleCommand(s, "nmi", "Send a non-maskable interrupt, upon which systems write a crash dump",
		"Sends a non-maskable interrupt to hosts (POST to the subresource nmi). Their operating systems mostly write a crash\ndump and reboot.",
		"  kubectl bmh nmi worker-0",
		action{
			past: "interrupted", destroys: "crashes the operating systems of",
			do: post(hostClient.NMI, &metal3.HostNMI{}, func(answer *metal3.HostNMI) string { return answer.Status.Message }),
		})
}

func newRebuildCommand(s *session) *cobra.Command {
	return newSimpleCommand(s, "rebuild", "Write the image of provisioned hosts again",
		"Writes the image that a provisioned host runs to its disk again, with a new config drive (POST to the subresource\nrebuild). Everything on the root disk is lost.",
		"  kubectl bmh rebuild worker-0 --wait",
		action{
			past: "rebuild requested", destroys: "erases the root disks of", target: hosts.Provisioned,
			do: post(hostClient.Rebuild, &metal3.HostRebuild{}, func(answer *metal3.HostRebuild) string { return answer.Status.Message }),
		})
}
