// SPDX-License-Identifier: Apache-2.0

// Package redact removes secrets from what Ironic says. Ironic and its drivers quote
// what they were sent: in the answer to a request, or later in last_error. None of the
// secrets in it may reach those who read a host.
//
// Start reading with Words in context.go, and With, by which a caller names the secrets that Ironic may
// quote; spell.go has the spellings of a secret.
package redact
