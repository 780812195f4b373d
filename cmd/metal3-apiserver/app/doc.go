// SPDX-License-Identifier: Apache-2.0

// Package app implements the command: its options, its configuration, and how it runs. It
// connects storage and synchronisation, which know each other only through interfaces.
//
// It may import everything, and nothing of the product imports it. The files settings*.go and options.go have
// the flags, run.go the start and the end, server.go what every replica does, leader.go what the leader does
// in addition, etcd*.go the embedded etcd and the commands for members, and migration.go, import.go and
// export.go the Jobs of a migration. Start reading in run.go.
package app
