// SPDX-License-Identifier: Apache-2.0

// Package app has the commands of kubectl bmh.
//
// There is one file for each command; action.go and targets.go have what commands that request actions share,
// and session.go how the cluster is reached. What is shown is computed in the packages hosts, view and why.
// The plugin may import the API and nothing of the server. Start reading in command.go.
package app
