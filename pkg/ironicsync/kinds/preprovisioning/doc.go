// SPDX-License-Identifier: Apache-2.0

// Package preprovisioning requests a ramdisk image for each host that boots a ramdisk, with the
// PreprovisioningImage of the host's name. Either another controller builds the images, or the built-in
// provider offers those that the server is configured with.
//
//	controller.go  the PreprovisioningImage of a host: its spec, owner and finalizer
//	verdict.go     whether a host can boot its image (pure)
//	builtin.go     the built-in provider
package preprovisioning
