// SPDX-License-Identifier: Apache-2.0

// Package panics keeps what the server cannot cope with in one object from ending the process. The other replicas would meet it,
// too, and all objects would be left alone because of one.
package panics
