// SPDX-License-Identifier: Apache-2.0

// Package metal3 defines the storage of each resource of the group metal3.io.
//
// Of the engine, it imports only what is pure: it declares what it needs of the rest as an interface (Live), which
// cmd/metal3-apiserver/app implements. storage.go lists the resources, and kinds.go describes all kinds
// but BareMetalHost.
package metal3
