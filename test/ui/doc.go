// SPDX-License-Identifier: Apache-2.0

// Package ui uses the page of kubectl bmh ui in a real browser: Debian's Chromium, without a window. The
// page goes through a real kube-apiserver and our server to a simulated Ironic. With IRONIC=bookworm, trixie or sid,
// it goes to that of a Debian release, and the tests that need the simulator are left out.
package ui
