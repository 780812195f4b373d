// SPDX-License-Identifier: Apache-2.0

// Package metal3 defines the storage of each resource of the group metal3.io.
//
// It does not import the engine: it declares what it needs of it as interfaces (Live, Requests), and
// cmd/metal3-apiserver/app connects them. storage.go lists the resources, and kinds.go describes all kinds
// but BareMetalHost.
package metal3
