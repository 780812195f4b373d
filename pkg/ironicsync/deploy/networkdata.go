// SPDX-License-Identifier: Apache-2.0

package deploy

import "encoding/json"

// maxRamdiskNetwork bounds the network configuration of a ramdisk, as JSON. Ironic repeats it whenever it lists the nodes that have
// changed, which the reads of all hosts wait for. A machine with dozens of network cards needs less than a tenth.
const maxRamdiskNetwork = 64 << 10

// RamdiskNetwork returns the network configuration that a Secret holds for the
// ramdisk; nil when it has none. Errors tell nothing of what is in it.
func RamdiskNetwork(namespace, name string, data map[string][]byte) (map[string]any, error) {
	secret := configSecret{namespace, name, PreprovisioningNetworkData, data}
	values, err := secret.values("networkData", false)
	if err != nil {
		return nil, err
	}
	encoded, err := json.Marshal(values)
	if err != nil {
		return nil, secret.fail("its network configuration cannot be written as JSON")
	}
	if len(encoded) > maxRamdiskNetwork {
		return nil, secret.fail("its network configuration has %d KiB as JSON, which is more than the %d KiB that a ramdisk can have", len(encoded)>>10, maxRamdiskNetwork>>10)
	}
	return values, nil
}
