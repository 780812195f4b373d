// SPDX-License-Identifier: Apache-2.0

// Package executor takes the steps that lifecycle.Next plans: it makes the requests to Ironic of which a
// step consists, and records what became of them. There is one file for each group of actions. Each step
// may be taken again after a crash in its middle.
//
// It decides nothing: which step to take is decided in lifecycle, and when in reconcile, which it may not
// import, as little as registrar. Start reading with New in executor.go; ask.go records requests before they
// are sent.
package executor
