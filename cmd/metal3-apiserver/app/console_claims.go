// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/baremetalhost/console"
)

// claimTTL is after how many seconds a claim ends whose server was killed.
const claimTTL = 15

// etcdClaims keeps the claims of consoles in the server's etcd. A claim is a key with a lease, so
// that it ends with the server. Beside it is a key without one, which stays until the console is
// disabled: if it is alone, the console was abandoned.
type etcdClaims struct {
	client          *clientv3.Client
	claims, enabled string // prefixes of the keys; see keyOf for the rest
}

// newEtcdClaims returns the claims in the etcd of a client, whose keys begin with prefix.
func newEtcdClaims(client *clientv3.Client, prefix string) *etcdClaims {
	keys := path.Join("/", prefix, "metal3-apiserver", "consoles")
	return &etcdClaims{client: client, claims: keys + "/claims/", enabled: keys + "/enabled/"}
}

// keyOf returns the rest of the keys of a node: its UUID, after the name of its IronicInstance if it is in one.
func keyOf(node console.Node) string { return path.Join(node.Ironic, node.UUID) }

// nodeOf is the inverse of keyOf.
func nodeOf(key string) console.Node {
	instance, uuid := path.Split(key)
	return console.Node{Ironic: strings.TrimSuffix(instance, "/"), UUID: uuid}
}

// claimant is the value of a claim.
type claimant struct {
	User  string    `json:"user"`
	Since time.Time `json:"since"`
}

// Claim implements console.Claims.
func (c *etcdClaims) Claim(ctx context.Context, node console.Node, user string, force bool) (console.Claim, error) {
	// The request bounds how long etcd may take for the lease; the session, which keeps it alive,
	// outlives the request.
	lease, err := c.client.Grant(ctx, claimTTL)
	if err != nil {
		return nil, cannotClaim(err)
	}
	session, err := concurrency.NewSession(c.client, concurrency.WithTTL(claimTTL), concurrency.WithLease(lease.ID), concurrency.WithContext(context.WithoutCancel(ctx)))
	if err != nil {
		return nil, cannotClaim(err)
	}
	key := c.claims + keyOf(node)
	value, err := json.Marshal(claimant{User: user, Since: time.Now()})
	if err != nil {
		return nil, err
	}
	take := []clientv3.Op{clientv3.OpPut(key, string(value), clientv3.WithLease(session.Lease())), clientv3.OpPut(c.enabled+keyOf(node), "")}
	txn := c.client.Txn(ctx)
	if !force {
		txn = txn.If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0))
	}
	answer, err := txn.Then(take...).Else(clientv3.OpGet(key)).Commit()
	if err == nil && answer.Succeeded {
		return newEtcdClaim(c, session, keyOf(node), answer.Header.Revision), nil
	}
	_ = session.Close() // the lease ends by itself otherwise
	if err != nil {
		return nil, cannotClaim(err)
	}
	inUse := &console.InUseError{User: "somebody"}
	for _, kv := range answer.Responses[0].GetResponseRange().Kvs {
		var holder claimant
		if json.Unmarshal(kv.Value, &holder) == nil {
			inUse.User, inUse.Since = holder.User, holder.Since
		}
	}
	return nil, inUse
}

func cannotClaim(err error) error {
	return &console.BrokenError{Reason: fmt.Sprintf("etcd, which notes who uses a console, does not answer: %v; try again", err)}
}

// Abandoned implements console.Claims.
func (c *etcdClaims) Abandoned(ctx context.Context) ([]console.Node, error) {
	answer, err := c.client.Txn(ctx).Then(
		clientv3.OpGet(c.enabled, clientv3.WithPrefix(), clientv3.WithKeysOnly()),
		clientv3.OpGet(c.claims, clientv3.WithPrefix(), clientv3.WithKeysOnly()),
	).Commit()
	if err != nil {
		return nil, err
	}
	claimed := map[string]bool{}
	for _, kv := range answer.Responses[1].GetResponseRange().Kvs {
		claimed[strings.TrimPrefix(string(kv.Key), c.claims)] = true
	}
	var abandoned []console.Node
	for _, kv := range answer.Responses[0].GetResponseRange().Kvs {
		if key := strings.TrimPrefix(string(kv.Key), c.enabled); !claimed[key] {
			abandoned = append(abandoned, nodeOf(key))
		}
	}
	return abandoned, nil
}

// etcdClaim is a claim that this server has.
type etcdClaim struct {
	claims   *etcdClaims
	session  *concurrency.Session
	key      string // as of keyOf
	revision int64
	lost     chan struct{}
	stop     context.CancelFunc
	stopped  chan struct{}
}

func newEtcdClaim(claims *etcdClaims, session *concurrency.Session, key string, revision int64) *etcdClaim {
	ctx, stop := context.WithCancel(context.Background())
	claim := &etcdClaim{claims: claims, session: session, key: key, revision: revision,
		lost: make(chan struct{}), stop: stop, stopped: make(chan struct{})}
	go func() {
		defer close(claim.stopped)
		changes := claims.client.Watch(ctx, claims.claims+key, clientv3.WithRev(revision+1))
		select {
		case <-changes: // somebody has forced a claim; or the watch has ended, and nothing is known
		case <-session.Done():
		case <-ctx.Done():
		}
		if ctx.Err() == nil {
			close(claim.lost)
		}
	}()
	return claim
}

// Lost implements console.Claim.
func (c *etcdClaim) Lost() <-chan struct{} { return c.lost }

// Release implements console.Claim.
func (c *etcdClaim) Release(ctx context.Context, disabled bool) error {
	c.stop()
	<-c.stopped
	var err error
	if disabled {
		key := c.claims.claims + c.key
		_, err = c.claims.client.Txn(ctx).
			If(clientv3.Compare(clientv3.ModRevision(key), "=", c.revision)). // nobody has forced a claim
			Then(clientv3.OpDelete(key), clientv3.OpDelete(c.claims.enabled+c.key)).Commit()
	}
	if closing := c.session.Close(); err == nil {
		err = closing
	}
	return err
}
