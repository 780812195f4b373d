// SPDX-License-Identifier: Apache-2.0

// Package hostindex keeps the BareMetalHosts of the cluster in memory, as a watch has them, and finds
// them by what ties them to nodes, BMCs, Secrets and each other.
//
// It is told of hosts by a watch, and asks Ironic nothing.
package hostindex
