// SPDX-License-Identifier: Apache-2.0

package app

import (
	"github.com/spf13/cobra"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"

	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/hosts"
)

// newSimpleCommand returns a command for an action without arguments of its own.
func newSimpleCommand(s *session, name, short, long, example string, a action) *cobra.Command {
	f := &actionFlags{session: s, canWait: a.target != ""}
	cmd := &cobra.Command{
		Use:               name + " (NAME... | -l LABELS | --all)",
		GroupID:           groupAct,
		Short:             short,
		Long:              long,
		Example:           example,
		ValidArgsFunction: s.completeHosts(0),
		RunE:              func(cmd *cobra.Command, args []string) error { return f.run(cmd.Context(), args, a) },
	}
	f.addFlags(cmd)
	return cmd
}

func newInspectCommand(s *session) *cobra.Command {
	return newSimpleCommand(s, "inspect", "Inspect the hardware of available hosts again",
		`Inspects the hardware of hosts again (POST to the subresource inspect). The hosts are rebooted into a ramdisk,
unless spec.inspectionMode is fast.`,
		`  kubectl bmh inspect worker-0 --wait`,
		action{
			past: "inspection requested", destroys: "reboots and inspects", target: hosts.Available,
			do: post(hostClient.Inspect, &metal3.HostInspection{}, nil),
		})
}

func newRetryCommand(s *session) *cobra.Command {
	return newSimpleCommand(s, "retry", "Try again at once what has failed",
		`Makes the server try at once what has failed, instead of after a pause (POST to the subresource retry).`,
		`  kubectl bmh retry worker-0
  kubectl bmh retry --all --wait`,
		action{
			past: "retried", target: hosts.Settled,
			do: post(hostClient.Retry, &metal3.HostRetry{}, func(answer *metal3.HostRetry) string { return answer.Status.Message }),
		})
}
