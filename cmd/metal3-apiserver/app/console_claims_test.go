// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/baremetalhost/console"
)

func TestConsoleClaims(t *testing.T) {
	etcd := startEtcd(t, t.TempDir())
	defer etcd.Close()
	newReplica := func() *etcdClaims {
		return newEtcdClaims(clientOf(t, etcd), "/registry")
	}
	one, other := newReplica(), newReplica()
	abandoned := func(want ...console.Node) {
		t.Helper()
		got, err := other.Abandoned(t.Context())
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("abandoned are %v (%v), want %v", got, err, want)
		}
	}
	claim := func(claims *etcdClaims, user string, force bool) console.Claim {
		t.Helper()
		claim, err := claims.Claim(t.Context(), console.Node{UUID: "node"}, user, force)
		if err != nil {
			t.Fatal(err)
		}
		return claim
	}
	release := func(claim console.Claim, disabled bool) {
		t.Helper()
		if err := claim.Release(t.Context(), disabled); err != nil {
			t.Fatal(err)
		}
	}
	lost := func(claim console.Claim) {
		t.Helper()
		select {
		case <-claim.Lost():
		case <-time.After(5 * time.Minute):
			t.Fatal("the claim is not lost")
		}
	}

	alice := claim(one, "alice", false)
	_, err := other.Claim(t.Context(), console.Node{UUID: "node"}, "bob", false)
	var inUse *console.InUseError
	if !errors.As(err, &inUse) || inUse.User != "alice" || time.Since(inUse.Since) > time.Hour {
		t.Errorf("bob is told %v", err)
	}
	bob := claim(other, "bob", true)
	lost(alice)
	release(alice, false) // must not end bob's claim
	abandoned()
	if _, err := one.Claim(t.Context(), console.Node{UUID: "node"}, "carol", false); !errors.As(err, &inUse) || inUse.User != "bob" {
		t.Errorf("carol is told %v", err)
	}
	release(bob, false) // Ironic has not answered
	abandoned(console.Node{UUID: "node"})
	release(claim(one, "carol", false), true)
	abandoned()

	dave := claim(one, "dave", false)
	if err := one.client.Close(); err != nil { // the server is killed
		t.Fatal(err)
	}
	lost(dave)
	if _, err := other.client.Revoke(t.Context(), dave.(*etcdClaim).session.Lease()); err != nil { // its time has passed
		t.Fatal(err)
	}
	abandoned(console.Node{UUID: "node"})
	release(claim(other, "erin", false), true)
	abandoned()
}

// TestConsoleClaimsWithoutEtcd checks that a user is told why there is no console, in time.
func TestConsoleClaimsWithoutEtcd(t *testing.T) {
	etcd := startEtcd(t, t.TempDir())
	claims := newEtcdClaims(clientOf(t, etcd), "/registry")
	etcd.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	_, err := claims.Claim(ctx, console.Node{UUID: "node"}, "alice", false)
	if broken := new(console.BrokenError); !errors.As(err, &broken) || !strings.Contains(err.Error(), "etcd") {
		t.Errorf("alice is told %v", err)
	}
}

// TestConsoleClaimsOfTwoIronics: a node is not claimed with the one that has the same UUID in another Ironic.
func TestConsoleClaimsOfTwoIronics(t *testing.T) {
	etcd := startEtcd(t, t.TempDir())
	defer etcd.Close()
	claims := newEtcdClaims(clientOf(t, etcd), "/registry")
	nodes := []console.Node{{UUID: "node"}, {Ironic: "room-b", UUID: "node"}}
	var held []console.Claim
	for _, node := range nodes {
		claim, err := claims.Claim(t.Context(), node, "alice", false)
		if err != nil {
			t.Fatalf("%+v: %v", node, err)
		}
		held = append(held, claim)
	}
	for i, want := range [][]console.Node{nodes[:1], nodes} {
		if err := held[i].Release(t.Context(), false); err != nil { // Ironic has not answered
			t.Fatal(err)
		}
		got, err := claims.Abandoned(t.Context())
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("abandoned are %+v (%v), want %+v", got, err, want)
		}
	}
}
