package apiserver_test

import (
	"context"
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	metal3registry "github.com/metal3-io/metal3-apiserver/pkg/registry/metal3"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/baremetalhost"
)

// fakeNodes is the Ironic on which the actions act. It records the changes that are requested,
// and does what the test specifies instead of making them.
type fakeNodes struct {
	mu    sync.Mutex
	nodes map[string]*ironic.Node
	calls []string
	// getErr, if it is set, is returned by every read.
	getErr error
	// do is called without the lock for every change; nil means success.
	do func(call string) error
}

func (f *fakeNodes) set(node *ironic.Node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.nodes == nil {
		f.nodes = map[string]*ironic.Node{}
	}
	f.nodes[node.UUID] = node
}

// script prepares for a test: it forgets earlier changes, and sets getErr and do.
func (f *fakeNodes) script(getErr error, do func(call string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls, f.getErr, f.do = nil, getErr, do
}

// failReads makes all further reads fail with err.
func (f *fakeNodes) failReads(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.getErr = err
}

func (f *fakeNodes) changes() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

func (f *fakeNodes) edit(id string, change func(*ironic.Node)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	node := *f.nodes[id]
	change(&node)
	f.nodes[id] = &node
}

func (f *fakeNodes) GetNode(ctx context.Context, id string) (*ironic.Node, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.getErr != nil {
		return nil, f.getErr
	}
	node, ok := f.nodes[id]
	if !ok {
		return nil, refusal(404, "Node "+id+" could not be found.")
	}
	seen := *node
	return &seen, ctx.Err()
}

func (f *fakeNodes) call(text string) error {
	f.mu.Lock()
	f.calls = append(f.calls, text)
	do := f.do
	f.mu.Unlock()
	if do == nil {
		return nil
	}
	return do(text)
}

func (f *fakeNodes) SwitchPower(_ context.Context, id string, target ironic.PowerTarget) (ironic.PowerTarget, string, error) {
	err := f.call(fmt.Sprintf("%s: %s", id, target))
	hard, soft := map[ironic.PowerTarget]ironic.PowerTarget{
		ironic.TargetSoftPowerOff: ironic.TargetPowerOff, ironic.TargetSoftReboot: ironic.TargetReboot,
	}[target]
	var answer *ironic.APIError
	if soft && errors.As(err, &answer) && answer.Status == 400 {
		return hard, answer.Message, f.call(fmt.Sprintf("%s: %s", id, hard))
	}
	return target, "", err
}

func (f *fakeNodes) SetProvisionState(_ context.Context, id string, target ironic.ProvisionTarget, _ ironic.ProvisionOptions) error {
	return f.call(fmt.Sprintf("%s: %s", id, target))
}

// refusal is an error answer of Ironic.
func refusal(code int, message string) error {
	return &ironic.APIError{Status: code, Message: message, Op: "test"}
}

var silence = &ironic.UnavailableError{Op: "test", Reason: "no answer within 2s"}

// record writes a status to the store, as the synchronisation does.
func record(ctx context.Context, hosts *baremetalhost.Hosts, namespace, name string, change func(*metal3.BareMetalHostStatus)) error {
	for {
		host, err := hosts.Get(ctx, namespace, name)
		if err != nil {
			return err
		}
		change(&host.Status)
		if _, err := hosts.Record(ctx, host); !apierrors.IsConflict(err) {
			return err
		}
	}
}

// always returns err for every change.
func always(err error) func(string) error { return func(string) error { return err } }

var _ metal3registry.Nodes = &fakeNodes{}
