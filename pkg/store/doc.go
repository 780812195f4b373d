// SPDX-License-Identifier: Apache-2.0

// Package store keeps hosts and the objects of the other kinds in etcd. The API (pkg/registry) and the engine (pkg/ironicsync) read and
// write through it, so that neither has to know the other: Hosts and Objects are their access, past HTTP, authorization and admission,
// but with the same validation.
//
// It owns how a host is encoded in etcd and shared in memory (Compact), which lists are the latest (ListLatest), that a host that a
// later version has recorded is left alone (Guarded), how much former versions may take in memory (Budgeted), and what a full etcd says
// (Explained).
package store
