// SPDX-License-Identifier: Apache-2.0

// Package validation validates the objects of the group and the requests for actions. Its
// rules are those of the Bare Metal Operator's schemas and admission webhooks, and of meaning.go.
//
// It only computes, and imports BMC addresses (pkg/ironic/bmc) but nothing else of Ironic. There is one
// function for each kind, in the file of the kind, and one for each action; ratchet.go lets what was stored
// before a rule existed be changed elsewhere. Start reading with ValidateBareMetalHost.
package validation
