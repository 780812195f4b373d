// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// newEtcdReplaceCommand returns the command after which a member whose data are lost can join again. A member that
// has forgotten what it has acknowledged must not go on under its old ID: etcd would believe it.
func newEtcdReplaceCommand(ctx context.Context) *cobra.Command {
	o, peerURL := NewOptions(), ""
	cmd := &cobra.Command{
		Use:   "replace MEMBER",
		Short: "Let a member of etcd whose data are lost begin anew",
		Long: `replace removes a member that does not answer from the cluster, and adds it again under the same
name and URL with another ID. It then joins if it is started with --initial-cluster-state=existing and
an empty data directory, and gets the data from the other members.`,
		Args:         cobra.ExactArgs(1),
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			var errs []error
			if external := o.validateStorage(func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }); !external {
				errs = append(errs, errors.New("an embedded etcd has no other members"))
			}
			if err := joinOnOneLine(errs); err != nil {
				return err
			}
			client, err := newEtcdClient(o.Recommended.Etcd.StorageConfig.Transport)
			if err != nil {
				return err
			}
			defer func() { _ = client.Close() }()
			peerURLs, err := replaceMember(ctx, client, args[0], peerURL)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s (%s) can join anew: delete its data and start it with --initial-cluster-state=existing\n", args[0], strings.Join(peerURLs, ","))
			return nil
		},
	}
	o.addStorageFlags(cmd.Flags())
	cmd.Flags().StringVar(&peerURL, "peer-url", peerURL, "URL of the member for the other ones. It is needed only if an earlier run was interrupted, and the member is not in the cluster any more.")
	return cmd
}

// replaceMember removes the member with a name and adds one with its URLs, which it returns. If there is no
// such member, it adds one with peerURL.
func replaceMember(ctx context.Context, client *clientv3.Client, name, peerURL string) (peerURLs []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 6*etcdAnswerTimeout)
	defer cancel()
	list, err := client.MemberList(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing the members of etcd: %w", oneLine(err))
	}
	for _, member := range list.Members {
		if member.Name != name {
			continue
		}
		for _, url := range member.ClientURLs {
			answer, cancel := context.WithTimeout(ctx, etcdAnswerTimeout)
			_, err := client.Status(answer, url)
			cancel()
			if err == nil {
				return nil, fmt.Errorf("%s answers at %s: only a member without data is replaced. If it is to be given other data, stop it first", name, url)
			}
		}
		// etcd itself refuses this (--strict-reconfig-check) if a majority would be lost with it.
		if _, err := client.MemberRemove(ctx, member.ID); err != nil {
			return nil, fmt.Errorf("removing %s from etcd: %w", name, oneLine(err))
		}
		if _, err := client.MemberAdd(ctx, member.PeerURLs); err != nil {
			return nil, fmt.Errorf("%s was removed from etcd, but could not be added again with %s: %w", name, strings.Join(member.PeerURLs, ","), oneLine(err))
		}
		return member.PeerURLs, nil
	}
	if peerURL == "" {
		return nil, fmt.Errorf("etcd has no member %s: if it was removed by an earlier run, set --peer-url", name)
	}
	if _, err := client.MemberAdd(ctx, []string{peerURL}); err != nil {
		return nil, fmt.Errorf("adding %s to etcd: %w", name, oneLine(err))
	}
	return []string{peerURL}, nil
}
