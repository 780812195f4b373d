// SPDX-License-Identifier: Apache-2.0

package registrar

import (
	"maps"
	"slices"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// marksOf is what the extra of a host's node says of whose it is.
func (r *Registrar) marksOf(host *metal3.BareMetalHost) map[string]any {
	marks := map[string]any{ironic.HostMark: string(host.UID)}
	if r.settings.Cluster != "" {
		marks[ironic.ClusterMark] = r.settings.Cluster
	}
	return marks
}

// isMadeFor reports whether a node is marked as the host's.
func isMadeFor(host *metal3.BareMetalHost, node *ironic.Registration) bool {
	return node.Extra[ironic.HostMark] == string(host.UID)
}

// markPatches are what marks a node as the host's. They go along with other patches: for a
// mark alone, Ironic 29.0.5 would make the node its own parent.
func markPatches(marks map[string]any, current *ironic.Registration) []ironic.Patch {
	var patches []ironic.Patch
	for _, key := range slices.Sorted(maps.Keys(marks)) {
		if current.Extra[key] != marks[key] {
			patches = append(patches, ironic.Patch{Op: ironic.PatchAdd, Path: "/extra/" + key, Value: marks[key]})
		}
	}
	return patches
}

// isMarkedOtherwise reports whether the node bears other marks than the host's: those of a host
// that is gone, or of a cluster that a person has taken the node over from.
func isMarkedOtherwise(marks map[string]any, current *ironic.Registration) bool {
	for key, mark := range marks {
		if found := current.Extra[key]; found != nil && found != mark {
			return true
		}
	}
	return false
}
