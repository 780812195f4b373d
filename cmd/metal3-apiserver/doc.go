// SPDX-License-Identifier: Apache-2.0

// Command metal3-apiserver serves BareMetalHosts as an aggregated Kubernetes API. Their spec
// comes from etcd, and their status from OpenStack Ironic.
//
// Start reading in the package app.
package main
