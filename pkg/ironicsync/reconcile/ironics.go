// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"sync"
	"time"

	"k8s.io/klog/v2"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/registrar"
)

// Member is one of the Ironics that hosts are driven with, as it is reached now.
type Member struct {
	// Name is that of the IronicInstance; empty for the Ironic of the server's flags.
	Name      string
	Ironic    Ironic
	Refresher Refresher
	// Settings are those of the Reconciler with what is the Ironic's own.
	Settings Settings
}

// Ironics are all Ironics behind this server.
type Ironics interface {
	// HasSynced reports whether they, and which hosts are their own, are known.
	HasSynced() bool
	// Members returns those that can be used, among them the Ironic of the server's flags. One that is reached in another way
	// than before is another Member. The channel is closed when they change, or the hosts that are their own.
	Members() (members []*Member, changed <-chan struct{})
	// Known returns the names of all Ironics, with those that cannot be used.
	Known() []string
	// OwnerOf returns the name of the Ironic whose own a host is. If it is no Ironic's, or cannot be known, problem
	// tells the user of the host why, and nothing must be done for it in any Ironic; the name is empty then.
	OwnerOf(host *metal3.BareMetalHost) (name, problem string)
}

// runDrivers runs a driver for each Ironic until ctx ends, and returns when all have ended. An Ironic that is reached in another
// way gets another driver when the work of the former one has ended.
func (c *Reconciler) runDrivers(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	ended := make(chan *driver)
	stops := map[*driver]context.CancelFunc{}
	for {
		members, changed := c.deps.Ironics.Members()
		wanted := map[*Member]bool{}
		for _, m := range members {
			wanted[m] = true
		}
		for _, d := range c.running() {
			if !wanted[d.member] {
				stops[d]() // it takes as long as a step that waits for Ironic
			}
		}
		for _, m := range members {
			if c.driverOf(m.Name) != nil {
				continue
			}
			d := newDriver(c, m)
			driverCtx, stop := context.WithCancel(klog.NewContext(ctx, loggerFor(ctx, m.Name)))
			stops[d] = stop
			c.setDriver(m.Name, d)
			running.Go(func() {
				d.run(driverCtx)
				select {
				case ended <- d:
				case <-ctx.Done():
				}
			})
		}
		c.requeueAll()
		select {
		case <-ctx.Done():
			for _, stop := range stops {
				stop()
			}
			return
		case <-changed:
		case d := <-ended:
			stops[d]()
			delete(stops, d)
			c.setDriver(d.member.Name, nil)
			forgetSteps(d.member.Name)
		}
	}
}

func loggerFor(ctx context.Context, name string) klog.Logger {
	log := klog.FromContext(ctx)
	if name != "" {
		log = log.WithValues("ironic", name)
	}
	return log
}

func (c *Reconciler) setDriver(name string, d *driver) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d == nil {
		delete(c.drivers, name)
	} else {
		c.drivers[name] = d
	}
}

func (c *Reconciler) driverOf(name string) *driver {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.drivers[name]
}

// running returns the drivers that run.
func (c *Reconciler) running() []*driver {
	c.mu.Lock()
	defer c.mu.Unlock()
	drivers := make([]*driver, 0, len(c.drivers))
	for _, d := range c.drivers {
		drivers = append(drivers, d)
	}
	return drivers
}

// firstReadLimit is for how long after a change of the leader steps that interrupt a machine wait until all other Ironics have been
// read. One that cannot be read after that holds up no host of another, and neither does one that is added later.
const firstReadLimit = time.Minute

// nodesElsewhere reports the nodes of all Ironics but one whose BMC may be the one with the key.
func (c *Reconciler) nodesElsewhere(except string, key bmc.Key) (found lifecycle.Elsewhere) {
	for _, name := range c.deps.Ironics.Known() {
		if name == except {
			continue
		}
		d := c.driverOf(name)
		if d == nil { // it cannot be used, or its driver has not begun
			found.Unread = true
			continue
		}
		nodes, asOf := d.refresher.NodesWithBMC(key)
		found.Nodes = append(found.Nodes, nodes...)
		found.Unread = found.Unread || asOf.IsZero()
	}
	found.Awaited = found.Unread && c.clock.Since(c.began) < firstReadLimit
	return found
}

// destinations are the Ironics of the running drivers, to which hosts can be moved.
type destinations struct{ *Reconciler }

// Exists reports whether there is such an Ironic, and whether the server can use it.
func (d destinations) Exists(name string) bool { return d.driverOf(name) != nil }

// WhyNotTaken tells the user of a host why an Ironic cannot take it.
func (d destinations) WhyNotTaken(ctx context.Context, name string, host *metal3.BareMetalHost) (why string, err error) {
	to := d.driverOf(name)
	if to == nil {
		return "the server does not know it, or cannot use it", nil
	}
	return registrar.WhyNotTaken(ctx, to.member.Ironic, to.refresher, host)
}
