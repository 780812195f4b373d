// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"

	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/hosts"
)

func newTransferCommand(s *session) *cobra.Command {
	f := &actionFlags{session: s, canWait: true}
	to := ""
	cmd := &cobra.Command{
		Use:     "transfer (NAME... | -l LABELS | --all) --to IRONIC",
		GroupID: groupAct,
		Short:   "Move hosts to another Ironic while they run",
		Long: `Moves hosts to another Ironic (POST to the subresource transfer). Their nodes leave the Ironic where they are, and
are created and adopted in the other one. The machines go on running as they are: their power is not switched, they
are not booted, and nothing is written to their disks.

--to is the name of an IronicInstance; --to "" is the Ironic of the server's flags. The Ironic where a host is calls off
a move that has not ended.`,
		Example: `  kubectl bmh transfer worker-0 --to room-b --wait
  kubectl bmh transfer -l rack=7 --to room-b --dry-run=server
  kubectl bmh transfer --all --to "" --yes`,
		ValidArgsFunction: s.completeHosts(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("to") {
				return errors.New(`--to is missing: the name of an IronicInstance, or "" for the Ironic of the server's flags`)
			}
			return f.run(cmd.Context(), args, transferAction(to))
		},
	}
	f.addFlags(cmd)
	cmd.Flags().StringVar(&to, "to", "", `The name of the IronicInstance to which the hosts are moved; "" is the Ironic of the server's flags`)
	return cmd
}

func transferAction(to string) action {
	destination := fmt.Sprintf("IronicInstance %q", to)
	if to == "" {
		destination = "the Ironic of the server's flags"
	}
	return action{
		past: "transfer requested", destroys: "moves to " + destination, target: hosts.Idle,
		do: post(hostClient.Transfer, &metal3.HostTransfer{Spec: metal3.HostTransferSpec{Ironic: &to}}, func(answer *metal3.HostTransfer) string { return answer.Status.Message }),
	}
}
