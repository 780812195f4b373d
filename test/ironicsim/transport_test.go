// SPDX-License-Identifier: Apache-2.0

package ironicsim_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/client"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim/fsm"
)

// inBubble runs a test with the product's client of a Sim in the same bubble, in
// which time passes when everybody waits.
func inBubble(t *testing.T, o ironicsim.Options, test func(t *testing.T, s *ironicsim.Sim, c *client.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := ironicsim.New(o)
		defer s.Close()
		c, err := client.New(client.Config{Endpoint: "http://ironic.test:6385", Transport: s.Transport()})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		test(t, s, c)
	})
}

const nodeID = "c0000000-0000-4000-8000-000000000001"

func makeNode(t *testing.T, c *client.Client) {
	t.Helper()
	info := map[string]any{"ipmi_address": "192.0.2.1", "ipmi_username": "admin", "ipmi_password": "secret"}
	if _, err := c.CreateNode(t.Context(), ironic.NoFence, ironic.NodeCreate{UUID: nodeID, Name: "metal3~worker-0", Driver: "ipmi", DriverInfo: info}); err != nil {
		t.Fatal(err)
	}
}

func settled(t *testing.T, c *client.Client) *ironic.Node {
	t.Helper()
	for range 3600 {
		node, err := c.GetNode(t.Context(), nodeID)
		if err != nil {
			t.Fatal(err)
		}
		if node.Reservation == "" && !node.ProvisionState.IsInTransit() {
			return node
		}
		time.Sleep(time.Second)
	}
	t.Fatal("the node does not come to rest within an hour")
	return nil
}

// The answer to a request is lost where the client goes away, and the request is executed.
func TestClientGoesAway(t *testing.T) {
	inBubble(t, ironicsim.Options{}, func(t *testing.T, s *ironicsim.Sim, c *client.Client) {
		s.AddBMC("192.0.2.1", "admin", "secret")
		makeNode(t, c)
		if err := s.LockNode(nodeID, ""); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(1500*time.Millisecond, func() { _ = s.UnlockNode(nodeID) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.SetMaintenance(ctx, ironic.NoFence, nodeID, "because"); !ironic.IsUnavailable(err) {
			t.Errorf("after a second: %v", err)
		}
		time.Sleep(2 * time.Second)
		if node := settled(t, c); !node.Maintenance || node.MaintenanceReason != "because" {
			t.Errorf("in the end: %+v", node)
		}
	})
}

// A request waits in a queue. It is executed and answered after that; if the client has left, it is executed later.
func TestQueued(t *testing.T) {
	inBubble(t, ironicsim.Options{}, func(t *testing.T, s *ironicsim.Sim, c *client.Client) {
		makeNode(t, c)
		s.Judge(func(kind string, _ *http.Request) ironicsim.Verdict {
			if kind == "PUT /v1/nodes/{node}/maintenance" {
				return ironicsim.Verdict{Queued: time.Second, Orphaned: func() time.Duration { return time.Minute }}
			}
			return ironicsim.Verdict{}
		})
		began := time.Now()
		if err := c.SetMaintenance(t.Context(), ironic.NoFence, nodeID, "one"); err != nil || time.Since(began) != time.Second {
			t.Errorf("answered after %v: %v", time.Since(began), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		if err := c.SetMaintenance(ctx, ironic.NoFence, nodeID, "two"); !ironic.IsUnavailable(err) {
			t.Errorf("the client has left: %v", err)
		}
		time.Sleep(time.Minute - time.Second)
		if node := settled(t, c); node.MaintenanceReason != "one" {
			t.Error("executed too early: ", node.MaintenanceReason)
		}
		time.Sleep(2 * time.Second)
		if node := settled(t, c); node.MaintenanceReason != "two" {
			t.Error("the request whose client has left was not executed: ", node.MaintenanceReason)
		}
	})
}

// A test decides about single requests: one is refused, one is executed and its answer lost.
func TestJudge(t *testing.T) {
	inBubble(t, ironicsim.Options{}, func(t *testing.T, s *ironicsim.Sim, c *client.Client) {
		makeNode(t, c)
		verdict := ironicsim.Verdict{Refusal: &fsm.Refusal{Status: http.StatusServiceUnavailable, Text: "No worker is free."}}
		s.Judge(func(kind string, _ *http.Request) ironicsim.Verdict {
			if kind == "PUT /v1/nodes/{node}/maintenance" {
				return verdict
			}
			return ironicsim.Verdict{}
		})
		var refused *ironic.APIError
		if err := c.SetMaintenance(t.Context(), ironic.NoFence, nodeID, "one"); !errors.As(err, &refused) || refused.Message != "No worker is free." {
			t.Errorf("refused: %v", err)
		}
		if node := settled(t, c); node.Maintenance {
			t.Error("what was refused was executed")
		}
		verdict = ironicsim.Verdict{Lost: true}
		if err := c.SetMaintenance(t.Context(), ironic.NoFence, nodeID, "two"); !ironic.IsUnavailable(err) {
			t.Errorf("lost: %v", err)
		}
		if node := settled(t, c); node.MaintenanceReason != "two" {
			t.Error("the request whose answer is lost was not executed")
		}
	})
}

// A lock refuses after Ironic's own retries, and faults are those of a Sim that listens.
func TestClientIsRefused(t *testing.T) {
	inBubble(t, ironicsim.Options{}, func(t *testing.T, s *ironicsim.Sim, c *client.Client) {
		makeNode(t, c)
		if err := s.LockNode(nodeID, "conductor-1"); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		err := c.SetMaintenance(t.Context(), ironic.NoFence, nodeID, "because")
		if !ironic.IsLocked(err) || time.Since(began) != 2*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		s.SetFaults(ironicsim.Faults{FailWrites: http.StatusForbidden})
		var refused *ironic.APIError
		if err := c.SetMaintenance(t.Context(), ironic.NoFence, nodeID, "because"); !errors.As(err, &refused) || refused.Status != http.StatusForbidden {
			t.Errorf("forbidden: %v", err)
		}
		s.SetFaults(ironicsim.Faults{Hang: true})
		began = time.Now()
		if _, err := c.GetNode(t.Context(), nodeID); !ironic.IsUnavailable(err) || time.Since(began) != client.DefaultTimeout {
			t.Errorf("a hanging Ironic, after %v: %v", time.Since(began), err)
		}
		s.SetFaults(ironicsim.Faults{})
		s.Close()
		if _, err := c.GetNode(t.Context(), nodeID); !ironic.IsUnavailable(err) {
			t.Errorf("a closed one: %v", err)
		}
	})
}
