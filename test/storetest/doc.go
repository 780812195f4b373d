// SPDX-License-Identifier: Apache-2.0

// Package storetest has tests use stores in a real etcd. It may import k8s.io/apiserver's parts for tests, and of this project the
// API alone, because tests of all stores import it. Start with New and EachCache.
package storetest
