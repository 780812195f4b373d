// SPDX-License-Identifier: Apache-2.0

// Package secrets reads the Secrets that hosts name, watches their versions, and keeps
// the claims of hosts on those with credentials of BMCs.
//
// It knows nothing of Ironic's client. Start reading in secrets.go. access.go reads and writes Secrets, watcher.go watches their metadata,
// and memory.go remembers what they had when they were read. claim.go marks a Secret as a host's,
// letgo.go and gone.go give it back, and copy.go is about the Secrets of HostClaims.
package secrets
