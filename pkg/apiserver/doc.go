// SPDX-License-Identifier: Apache-2.0

// Package apiserver assembles the aggregated API server from its scheme, the generic API
// server, and the API group.
//
// It serves no resource itself and does not know the engine: cmd/metal3-apiserver/app gives it the storage of
// each resource (pkg/registry). The other files change what the generic server does: patch.go, compress.go,
// discovery.go and hostlist.go. Start reading in apiserver.go.
package apiserver
