package deploy

// RamdiskNetwork returns the network configuration that a Secret holds for the
// ramdisk; nil when it has none. Errors tell nothing of what is in it.
func RamdiskNetwork(namespace, name string, data map[string][]byte) (map[string]any, error) {
	return configSecret{namespace, name, PreprovisioningNetworkData, data}.values("networkData", false)
}
