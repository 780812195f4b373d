// SPDX-License-Identifier: Apache-2.0

// Package testbed starts the real programs that the end-to-end tests and the demo use: a
// kube-apiserver with its etcd, metal3-apiserver behind an APIService, and an Ironic from Debian
// packages with simulated BMCs. Everything is created from scratch, on free ports of 127.0.0.1,
// and is removed when the program that started it ends, even if it is killed.
package testbed
