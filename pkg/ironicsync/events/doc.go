// SPDX-License-Identifier: Apache-2.0

// Package events reports what happens to hosts as Kubernetes events.
//
//	changes.go   which events follow from a change of a host (pure)
//	messages.go  what they say
//	recorder.go  writes them
//
// It knows hosts as they were recorded before and after, and nothing of the engine.
package events
