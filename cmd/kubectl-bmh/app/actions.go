// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

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
			do: func(ctx context.Context, c *clients, host *metal3.BareMetalHost, options metav1.CreateOptions) (runtime.Object, string, error) {
				answer, err := c.hosts(host.Namespace).Inspect(ctx, host.Name, &metal3.HostInspection{}, options)
				if err != nil {
					return nil, "", err
				}
				return answer, "", nil
			},
		})
}

func newRetryCommand(s *session) *cobra.Command {
	return newSimpleCommand(s, "retry", "Try again at once what has failed",
		`Makes the server try at once what has failed, instead of after a pause (POST to the subresource retry).`,
		`  kubectl bmh retry worker-0
  kubectl bmh retry --all --wait`,
		action{
			past: "retried", target: hosts.OK,
			do: func(ctx context.Context, c *clients, host *metal3.BareMetalHost, options metav1.CreateOptions) (runtime.Object, string, error) {
				answer, err := c.hosts(host.Namespace).Retry(ctx, host.Name, &metal3.HostRetry{}, options)
				if err != nil {
					return nil, "", err
				}
				return answer, answer.Status.Message, nil
			},
		})
}
