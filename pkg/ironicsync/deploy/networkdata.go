// SPDX-License-Identifier: Apache-2.0

package deploy

// maxRamdiskNetwork bounds the network configuration of a ramdisk, as JSON. Ironic repeats it whenever it lists the nodes that have
// changed, which the reads of all hosts wait for. A machine with dozens of network cards needs less than a tenth.
const maxRamdiskNetwork = 64 << 10

// RamdiskNetwork returns the network configuration that a Secret holds for the
// ramdisk; nil when it has none. Errors tell nothing of what is in it.
func RamdiskNetwork(namespace, name string, data map[string][]byte) (map[string]any, error) {
	secret := configSecret{namespace, name, PreprovisioningNetworkData, data}
	return secret.limited("networkData", false, maxRamdiskNetwork, "that a ramdisk can have")
}
