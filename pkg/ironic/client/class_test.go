// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// TestTenantsDoNotHoldUpOthers: requests that wait for what a tenant has take neither the connections of reads, nor those of
// requests that wait for something else, nor the share of another tenant.
func TestTenantsDoNotHoldUpOthers(t *testing.T) {
	release := make(chan struct{})
	arrived := make(chan struct{}, 1000)
	f := newFake(t, newestMinor, func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/hanging-") {
			arrived <- struct{}{}
			<-release
		}
		fmt.Fprint(w, "{}")
	})
	c := f.client()
	ctx := within(t, time.Minute)
	validate := func(ctx context.Context, id string) error { _, err := c.Validate(ctx, id, "deploy"); return err }
	deploy := func(ctx context.Context, id string) error {
		return c.SetProvisionState(ctx, ironic.NoFence, id, ironic.TargetActive, ironic.ProvisionOptions{})
	}
	var hung sync.WaitGroup
	for range 50 {
		for _, request := range []func(context.Context, string) error{validate, deploy} {
			hung.Go(func() {
				if err := request(ironic.WithTenant(ctx, "attacker"), "hanging-node"); err != nil {
					t.Error(err)
				}
			})
		}
	}
	for range ironic.DeploymentConnections / 2 {
		<-arrived
	}
	if _, err := c.GetNode(ctx, "node"); err != nil {
		t.Error("a read: ", err)
	}
	if err := c.DeleteNode(ctx, ironic.NoFence, "node"); err != nil {
		t.Error("a write: ", err)
	}
	if _, err := c.ListSubscriptions(ironic.WithTenant(ctx, "attacker"), "node"); err != nil {
		t.Error("a request to a BMC: ", err)
	}
	for range 20 {
		for _, request := range []func(context.Context, string) error{validate, deploy} {
			if err := request(ironic.WithTenant(within(t, 5*time.Second), "victim"), "node"); err != nil {
				t.Error("of another tenant: ", err)
			}
		}
	}
	if n := len(arrived); n > 0 {
		t.Errorf("%d more requests of one tenant are under way than half of the connections", n)
	}
	close(release)
	hung.Wait()
}

// TestQuestionsDoNotHoldUpReads: who asks for reports again and again, which nobody else waits for, holds up neither the reads of
// hosts nor the questions of another tenant.
func TestQuestionsDoNotHoldUpReads(t *testing.T) {
	release, arrived := make(chan struct{}), make(chan struct{}, 1000)
	f := newFake(t, newestMinor, func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/hanging-") {
			arrived <- struct{}{}
			<-release
		}
		fmt.Fprint(w, "{}")
	})
	c := f.client()
	ctx := within(t, time.Minute)
	var hung sync.WaitGroup
	for range 50 {
		hung.Go(func() {
			if _, err := c.History(ironic.WithQuestion(ctx, "attacker"), "hanging-node"); err != nil {
				t.Error(err)
			}
		})
	}
	for range ironic.QuestionConnections / 2 {
		<-arrived
	}
	if _, err := c.GetNode(ctx, "node"); err != nil {
		t.Error("a read of a host: ", err)
	}
	if _, err := c.GetNode(ironic.WithTenant(ctx, "attacker"), "node"); err != nil {
		t.Error("a step of a host: ", err)
	}
	for range 20 {
		if _, err := c.History(ironic.WithQuestion(within(t, 5*time.Second), "victim"), "node"); err != nil {
			t.Error("of another tenant: ", err)
		}
	}
	if n := len(arrived); n > 0 {
		t.Errorf("%d more questions of one tenant are under way than half of the connections", n)
	}
	close(release)
	hung.Wait()
}

// TestClassOfEachRequest: each request names its class where it is defined; without one, it is refused.
func TestClassOfEachRequest(t *testing.T) {
	c := newFake(t, newestMinor, answer(http.StatusOK, "{}")).client()
	if err := c.do(within(t, time.Minute), request{text: "forget the class", method: http.MethodGet, path: "nodes"}); err == nil {
		t.Error("a request without a class was sent")
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(node ast.Node) bool {
			literal, ok := node.(*ast.CompositeLit)
			if !ok {
				return true
			}
			if name, ok := literal.Type.(*ast.Ident); !ok || name.Name != "request" {
				return true
			}
			found++
			for _, element := range literal.Elts {
				if key, ok := element.(*ast.KeyValueExpr).Key.(*ast.Ident); ok && key.Name == "class" {
					return true
				}
			}
			t.Errorf("%s: a request without a class", fset.Position(literal.Pos()))
			return true
		})
	}
	if found == 0 {
		t.Error("no requests found")
	}
}

// TestSlotsAfterGivingUp: who has given up waiting leaves no trace, and those behind get their slots.
func TestSlotsAfterGivingUp(t *testing.T) {
	s := &slots{size: 4, free: 4, shared: map[string]int{}}
	for range 2 {
		if err := s.acquire(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
	}
	const patience = 10 * time.Millisecond
	if err := s.acquire(within(t, patience), "a"); err == nil {
		t.Error("a third slot of four for one namespace")
	}
	if err := s.acquire(t.Context(), "b"); err != nil {
		t.Error(err)
	}
	s.release("b")
	s.release("a")
	s.release("a")
	if s.free != 4 || len(s.waiting) > 0 || len(s.shared) > 0 {
		t.Errorf("after all are released: %+v", s)
	}
}
