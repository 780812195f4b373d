// SPDX-License-Identifier: Apache-2.0

package registrar

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/deploy"
)

// digestOfSettings tells apart the settings that nodes are registered with: when they change, each node is
// registered again. It is the same in every process.
func digestOfSettings(ramdisk deploy.Ramdisk) string {
	encoded, err := json.Marshal(ramdisk)
	if err != nil {
		return "" // strings and maps of them never fail
	}
	digest := fnv.New32a()
	_, _ = digest.Write(encoded)
	return fmt.Sprintf("%08x", digest.Sum32())
}

// DigestOf returns the digest of the settings that the node of a host is to be registered with.
func (r *Registrar) DigestOf(ctx context.Context, host *metal3.BareMetalHost) (string, error) {
	access, err := bmc.Parse(host.Spec.BMC.Address, host.Spec.BMC.DisableCertificateVerification)
	isRespelt := false
	if err == nil && access.IsRespelt() {
		features, err := r.Ironic.Features(ctx)
		if err != nil {
			return "", err
		}
		isRespelt = features.StrictIPMINames
	}
	return digestFor(r.digest, r.settings.ConductorGroups.GroupOf(host.Labels), isRespelt), nil
}

// digestFor returns the digest of the settings for a host with a conductor group, and with a name of its BMC that older servers, or Ironics,
// spell otherwise: only the hosts for which one of these changes are registered again, and nothing changes for those with neither.
func digestFor(digest, group string, isRespelt bool) string {
	if group != "" {
		digest += "/" + group
	}
	if isRespelt {
		digest += "/lower-case"
	}
	return digest
}
