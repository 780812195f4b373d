// SPDX-License-Identifier: Apache-2.0

// Package kind stores and serves kinds in the same way as kube-apiserver handles kinds that
// are defined by a CustomResourceDefinition: objects are validated, stored and served, but
// this package does not act on them. A Kind describes how a kind differs from others.
//
// Start reading with Kind in kind.go.
package kind
