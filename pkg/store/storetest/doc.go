// SPDX-License-Identifier: Apache-2.0

// Package storetest has tests use stores in a real etcd. It may import k8s.io/apiserver's parts for tests, and nothing of this
// project. Start with New and EachCache.
package storetest
