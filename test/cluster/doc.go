// SPDX-License-Identifier: Apache-2.0

// Package cluster installs metal3-apiserver on a real node of Kubernetes, as docs/install.md says. Its tests need root, take
// minutes, and are in no tier: make test-cluster runs them.
package cluster
