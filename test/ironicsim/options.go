// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Options configure a Sim. The zero value of each field stands for the default
// in its comment; a negative duration stands for "never" where that makes sense.
type Options struct {
	// MaxVersion is the highest API version that is served: "1.96".
	MaxVersion string
	// ConductorGroups are groups that have conductors, beside that of the nodes without a group.
	ConductorGroups []string
	// Username and Password switch on auth_strategy http_basic.
	Username, Password string

	// Delays of the operations that run in the conductor.
	Delays Delays

	// LockRetryInterval is node_locked_retry_interval: 1 s, so that a call on a locked node blocks for two seconds before
	// its 409.
	LockRetryInterval time.Duration
	// Workers is workers_pool_size: operations that may run at once before 503: 100.
	Workers int

	// BMCDelay is how long a command to a living BMC takes: 10 ms.
	BMCDelay time.Duration
	// BMCTimeout is how long a command to a dead BMC holds the node: 3 s, as
	// ipmitool takes with one try. (By default it takes 70 s, and Redfish 16 s.)
	BMCTimeout time.Duration
	// MaxPowerTimeout bounds the timeout of a request, so that a test need not wait
	// for the minutes that a client gives a system to shut down. Zero: no bound.
	MaxPowerTimeout time.Duration
	// PowerSyncInterval is sync_power_state_interval: 5 s, as tests use; Ironic's
	// own default is 60 s. Negative: no power sync.
	PowerSyncInterval time.Duration
	// PowerRecoveryInterval is power_failure_recovery_interval: 5 s, as tests use;
	// Ironic's own default is 300 s. Negative: no recovery.
	PowerRecoveryInterval time.Duration

	// DefaultRamdisk stands for [conductor]deploy_kernel and deploy_ramdisk: nodes
	// that boot the ramdisk need not name one in driver_info.
	DefaultRamdisk bool
	// CallbackTimeout is how long a node waits for its ramdisk (inspect_wait_timeout,
	// clean_callback_timeout, deploy_callback_timeout): 30 min.
	CallbackTimeout time.Duration
	// AutoInspect plays the ramdisk of a node in "inspect wait": it reports a
	// plausible inventory after RamdiskDelay.
	AutoInspect bool
	// AutoDeploy plays the ramdisk of a node in "clean wait" or "wait call-back":
	// the operation goes on after RamdiskDelay.
	AutoDeploy bool
	// RamdiskDelay is the time that the simulated ramdisk needs to boot: 1 s.
	RamdiskDelay time.Duration
	// InventoryLag is how long a node can be manageable before its inventory is
	// there: 20 ms. Ironic 21.4 wrote them in this order.
	InventoryLag time.Duration

	// NoSoftPowerOff names the drivers whose power interface has no soft power
	// off and no soft reboot. None of Ironic's usual ones lacks it.
	NoSoftPowerOff []string
	// Trail, if it is set, is told of each write to the database, each request that was executed, and what was
	// done to machines. It is called with a lock of the Sim held, and from several goroutines; it must not call the Sim.
	Trail func(Event)
	// WithoutDefects leaves out the defects of Ironic 29.0.5 that this package
	// repeats: each PATCH of a node makes the node its own parent_node (it then
	// vanishes from lists that do not ask for include_children, and cannot be
	// switched on or off because it waits for its own lock), and the rebuild
	// verb answers 500 if the node has no image_source.
	WithoutDefects bool
}

// What tests have no reason to change of Ironic's configuration.
const (
	// conductorName is the conductor's host name, seen in reservation.
	conductorName = "conductor-0"
	// lockAttempts is node_locked_retry_attempts.
	lockAttempts = 3
	// requestThreads is wsgi_default_pool_size: requests that are worked on at a time, including those that wait for a BMC
	// or an image server; further ones wait.
	requestThreads = 100
	// imageTimeout is webserver_connection_timeout: how long to wait for the server of an image.
	imageTimeout = time.Minute
	// silentBMCTimeout is how long Ironic waits for a BMC that accepts a connection and does not answer.
	silentBMCTimeout = time.Minute
	// powerChangeTimeout is power_state_change_timeout, and softPowerOffTimeout soft_power_off_timeout. A request's own
	// timeout replaces them.
	powerChangeTimeout  = 10 * time.Second
	softPowerOffTimeout = 10 * time.Minute
	// powerSyncRetries is power_state_sync_max_retries, as tests of Metal3 use it; Ironic's own default is 3.
	powerSyncRetries = 1
	// maxLimit is [api]max_limit, the largest page.
	maxLimit = 1000
)

// Delays are the times that operations spend in their transient states, on top
// of what the BMC takes. The default of each is 25 ms, which is about what
// fake-hardware takes in a real Ironic.
type Delays struct {
	Verify, Inspect, Clean, Deploy, Delete, Adopt, Service, Power time.Duration
}

// All returns Delays with each one set to d.
func All(d time.Duration) Delays {
	return Delays{Verify: d, Inspect: d, Clean: d, Deploy: d, Delete: d, Adopt: d, Service: d, Power: d}
}

// withDefaults fills in what was left out. It fails on a version that is not "1.N".
func (o Options) withDefaults() (Options, int, error) {
	set(&o.MaxVersion, "1.96")
	minor, err := parseMaxVersion(o.MaxVersion)
	if err != nil {
		return o, 0, err
	}
	const step = 25 * time.Millisecond
	for _, d := range []*time.Duration{
		&o.Delays.Verify, &o.Delays.Inspect, &o.Delays.Clean, &o.Delays.Deploy, &o.Delays.Delete,
		&o.Delays.Adopt, &o.Delays.Service, &o.Delays.Power,
	} {
		set(d, step)
	}
	set(&o.LockRetryInterval, time.Second)
	set(&o.Workers, 100)
	set(&o.BMCDelay, 10*time.Millisecond)
	set(&o.BMCTimeout, 3*time.Second)
	set(&o.PowerSyncInterval, 5*time.Second)
	set(&o.PowerRecoveryInterval, 5*time.Second)
	set(&o.CallbackTimeout, 30*time.Minute)
	set(&o.RamdiskDelay, time.Second)
	set(&o.InventoryLag, 20*time.Millisecond)
	return o, minor, nil
}

func set[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

func parseMaxVersion(v string) (int, error) {
	minor, ok := strings.CutPrefix(v, "1.")
	n, err := strconv.Atoi(minor)
	if !ok || err != nil || n < 1 {
		return 0, fmt.Errorf("ironicsim: MaxVersion %q is not a version such as 1.96", v)
	}
	return n, nil
}
