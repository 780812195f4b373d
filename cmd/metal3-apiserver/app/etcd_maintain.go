// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// newEtcdMaintainCommand returns the command that does for the members of an external etcd what the server does for
// the embedded one. It is a CronJob rather than a part of the server, because only one process may do it at a
// time, also while etcd is full and no lock can be written to it.
func newEtcdMaintainCommand(ctx context.Context) *cobra.Command {
	o := NewOptions()
	cmd := &cobra.Command{
		Use:   "maintain",
		Short: "Make space in an etcd that only metal3-apiserver uses",
		Long: `maintain defragments the members of --etcd-servers whose database has more than half of its
quota, one after the other and the leader last. It first removes the history. If etcd refuses
writes because it is full, and there is space then, writes are accepted again. It does nothing
unless all members answer, because a member answers no requests while it is defragmented.
It needs etcd 3.6 or later.`,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(*cobra.Command, []string) error {
			var errs []error
			if external := o.validateStorage(func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }); !external {
				errs = append(errs, errors.New("the server itself looks after the embedded etcd"))
			}
			if err := joinOnOneLine(errs); err != nil {
				return err
			}
			transport := o.Recommended.Etcd.StorageConfig.Transport
			client, err := newEtcdClient(transport)
			if err != nil {
				return err
			}
			defer func() { _ = client.Close() }()
			return maintainMembers(ctx, client, transport.ServerList)
		},
	}
	o.addStorageFlags(cmd.Flags())
	return cmd
}

// memberStatus is what a member says of itself.
type memberStatus struct {
	endpoint string
	*clientv3.StatusResponse
}

func (m memberStatus) leads() bool { return m.Leader == m.Header.MemberId }

// maintainMembers makes space in each of the members, and ends the alarm if there is one.
func maintainMembers(ctx context.Context, client *clientv3.Client, endpoints []string) error {
	full, err := (&etcdSpace{client: client}).isFull(ctx)
	if err != nil {
		return fmt.Errorf("asking etcd whether it is full: %w", oneLine(err))
	}
	members, err := allMembers(ctx, client, endpoints)
	if err != nil {
		return err
	}
	// When the leader does not answer, another member is elected. So it is the last one.
	slices.SortStableFunc(members, func(a, b memberStatus) int { return boolToInt(a.leads()) - boolToInt(b.leads()) })
	for _, member := range members {
		if _, err := allMembers(ctx, client, endpoints); err != nil {
			return err // one of them has died meanwhile, or is not back
		}
		space := &etcdSpace{client: client, endpoint: member.endpoint, quota: member.DbSizeQuota}
		if err := space.makeSpace(ctx, full); err != nil {
			return fmt.Errorf("etcd at %s: %w", member.endpoint, oneLine(err))
		}
	}
	return nil
}

// allMembers returns the status of all members, or an error if one does not answer.
func allMembers(ctx context.Context, client *clientv3.Client, endpoints []string) ([]memberStatus, error) {
	var members []memberStatus
	for _, endpoint := range endpoints {
		asked, cancel := context.WithTimeout(ctx, etcdAnswerTimeout)
		status, err := client.Status(asked, endpoint)
		cancel()
		if err == nil && len(status.Errors) > 0 && status.Leader == 0 {
			err = errors.New("it knows no leader")
		}
		if err != nil {
			return nil, fmt.Errorf("etcd at %s: %w: nothing is defragmented, because the other members have to answer meanwhile", endpoint, oneLine(err))
		}
		if status.DbSizeQuota == 0 {
			return nil, fmt.Errorf("etcd at %s does not report its quota: 3.6 or later is required", endpoint)
		}
		members = append(members, memberStatus{endpoint, status})
	}
	return members, nil
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
