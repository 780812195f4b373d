// SPDX-License-Identifier: Apache-2.0

// Package bmo notices that the Bare Metal Operator is at work beside this server. Whoever scales it up again after the
// migration, as GitOps tools and OLM do, has two engines drive one Ironic, of which one asks for no proof.
//
// Only what happens while this process looks counts: a Lease that is renewed between two looks, a status that is written
// between two versions of a host. What was there before says nothing: imported hosts carry managedFields of the operator, and an
// operator that was killed leaves its Lease. So no clock is compared with another one.
//
// It imports neither the engine nor the registry, because the migration uses it, too.
package bmo
