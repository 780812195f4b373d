// SPDX-License-Identifier: Apache-2.0

// Package bench measures the server beside the Ironic that it asks, and beside what
// it stands for: a CustomResourceDefinition to read from, a client of Ironic's API
// that drives it by itself. What is compared is measured in turns, in one run, on
// one machine, and a table of all of it is printed at the end. There are no limits
// on times. Run `make bench`; docs/performance.md says what comes out and how to
// read it.
//
// The server is the real program beside a kube-apiserver. The Ironic is a real one
// from Debian packages where it can run, for 1,000 hosts and fewer; and the
// simulator, for more hosts and for what has nothing to do with Ironic's speed.
package bench
