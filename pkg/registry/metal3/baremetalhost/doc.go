// SPDX-License-Identifier: Apache-2.0

// Package baremetalhost serves the resource baremetalhosts and its subresources.
//
// How a read is served is in storage.go: the recorded status is refreshed, and then the standard
// store answers.
//
// There is a file for each action, with action.go and recording.go for what they share; sources.go declares
// what they need of the engine. strategy.go decides who may write what, power_cut.go records power actions for the leader, and pkg/store
// refuses what a later version has recorded.
package baremetalhost
