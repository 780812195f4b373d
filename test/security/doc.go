// SPDX-License-Identifier: Apache-2.0

// Package security holds the server to docs/security.md: who may do what, by which
// proof of who he is, and that no password gets to anybody by way of it.
//
// A real kube-apiserver with RBAC, kube-controller-manager, which fills the
// aggregated roles, and our server as the service account of the manifests, at its
// highest verbosity and with an audit log of whole bodies. The Ironic is the
// simulator or, with IRONIC=bookworm, trixie or sid, a real one, behind a proxy that
// makes it quote what it is sent.
package security
