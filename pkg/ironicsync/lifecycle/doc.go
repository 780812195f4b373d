// SPDX-License-Identifier: Apache-2.0

// Package lifecycle is the state machine of a BareMetalHost, as pure functions: Observe
// (observe.go) turns what Ironic says of a host's node into the host's status, and Next
// (plan.go) decides what to do next. Both depend on nothing but their arguments, which
// include the time, so that they can be tested with tables.
//
// It imports deploy and settings, which are pure, too, and may import neither a client nor a clock nor
// anything that acts. Start reading with Next, whose comment lists the files of the plans.
package lifecycle
