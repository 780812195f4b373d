// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/page"
)

const (
	// probeInterval is how often the server is asked whether it could ask Ironic. It tells
	// that with lists, and at the start of watches, but not during them.
	probeInterval = 5 * time.Second
	// probeRetry is how often that is while what is shown is not live.
	probeRetry = 2 * time.Second
	// probeTimeout is how long the answer may take until what is shown no longer counts as live.
	probeTimeout = 20 * time.Second
)

// probe finds out whether what the watch has brought is what Ironic says now, by lists of one host:
// each list is answered from an observation of Ironic that began after the request, or has a warning.
type probe struct {
	list func(context.Context) error
	now  func() time.Time
	// changed receives a value after each answer.
	changed chan struct{}

	mu        sync.Mutex
	warning   string // of the request that is under way
	reason    string // why the last answer was not live, empty if it was
	confirmed time.Time
}

func (c *uiCommand) newProbe(config *rest.Config, namespace string) (*probe, error) {
	p := &probe{now: c.now, changed: make(chan struct{}, 1), reason: "Ironic was not asked yet"}
	config = rest.CopyConfig(config)
	config.WarningHandler = p
	clients, err := c.connectWith(config)
	if err != nil {
		return nil, err
	}
	options := c.options()
	options.Limit = 1
	p.list = func(ctx context.Context) error {
		if _, err := clients.metal3.Metal3V1alpha1().BareMetalHosts(namespace).List(ctx, options); err != nil {
			return err
		}
		if clients.isRecordedOnly(ctx) { // whose lists have no warning
			p.HandleWarningHeader(299, "-", recordedOnly)
		}
		return nil
	}
	return p, nil
}

// HandleWarningHeader implements rest.WarningHandler.
func (p *probe) HandleWarningHeader(_ int, _ string, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.warning = text
}

// run asks until ctx ends.
func (p *probe) run(ctx context.Context) {
	for {
		p.ask(ctx)
		pause := probeInterval
		if !p.freshness("").Live {
			pause = probeRetry
		}
		rest := time.NewTimer(pause)
		select {
		case <-rest.C:
		case <-ctx.Done():
			rest.Stop()
			return
		}
	}
}

func (p *probe) ask(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	began := p.now()
	p.mu.Lock()
	p.warning = ""
	p.mu.Unlock()
	err := p.list(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err != nil:
		p.reason = "the cluster does not answer: " + err.Error()
	case p.warning != "":
		p.reason = p.warning
	default:
		p.reason, p.confirmed = "", began
	}
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// freshness reports whether the picture is live, given what is wrong with the watch.
func (p *probe) freshness(watchProblem string) page.Freshness {
	p.mu.Lock()
	defer p.mu.Unlock()
	reason := cmp.Or(watchProblem, p.reason)
	freshness := page.Freshness{Live: reason == "", Reason: reason}
	if !p.confirmed.IsZero() {
		confirmed := p.confirmed
		freshness.Confirmed = &confirmed
	}
	return freshness
}

var _ rest.WarningHandler = &probe{}
