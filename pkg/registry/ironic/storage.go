// SPDX-License-Identifier: Apache-2.0

package ironic

import (
	"context"

	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/kind"
)

// Storage returns the storage of each resource of v1alpha1. stored is the store of the IronicInstances, from
// NewInstances, known tells what is known of their Ironics, ironics returns all Ironics that are known now, and namespace is that of
// the server. authorizer, which can be nil, is asked who may refer to which Secrets. Lists of Ironics' nodes are cancelled when ctx ends.
func Storage(ctx context.Context, ironics func() []NamedNodes, hosts Hosts, stored *kind.REST, known Instances, namespace string, authorizer authorizer.Authorizer) map[string]rest.Storage {
	stored.AuthorizeSecrets(authorizer)
	return map[string]rest.Storage{
		"candidates":      &candidates{ironics, newListings(ctx), hosts},
		"ironicinstances": &instances{REST: stored, hosts: hosts, statuses: &statuses{instances: known, hosts: hosts}, namespace: namespace},
	}
}
