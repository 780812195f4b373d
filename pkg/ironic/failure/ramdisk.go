// SPDX-License-Identifier: Apache-2.0

package failure

// agentPhrases are what errors have that Ironic makes when it calls the ramdisk on the machine.
var agentPhrases = []string{
	"connect to the agent running on node", "error invoking agent command", "connection to agent failed", "timeout executing command", "agent api for node",
}

var agentRules = []rule{
	proxyRule,
	{Meaning{"AgentClock", "Ironic does not trust the certificate of the ramdisk.",
		"Correct the clock of the machine in its firmware: the ramdisk makes the certificate when it boots."},
		[]string{"certificate is not yet valid", "certificate has expired"}},
	{Meaning{"AgentCertificate", "Ironic does not trust the certificate of the ramdisk.",
		"Check that no other machine has the address of the ramdisk, and that the machine has not been rebooted meanwhile: the ramdisk makes the certificate when it boots."},
		certificatePhrases},
	{Meaning{"AgentUnreachable", "Ironic does not reach the ramdisk on the machine.",
		"Check that Ironic may connect to port 9999 of the machine, and look at the console of the machine: it may have been reset, or have hung."},
		// Ironic has been answered if there was an error while it invoked a command, unless the connection has broken then.
		[]string{"failed to connect to the agent", "connection to agent failed", "timeout executing command", "error invoking agent command * connection reset by peer"}},
}

var ramdiskRules = []rule{
	{Meaning{"RamdiskSilent", "The ramdisk on the machine did not call Ironic in time.",
		"Look at the console of the machine, at DHCP, and at the URL of the ramdisk."},
		[]string{"timeout reached while waiting for callback", "timeout reached while waiting for rescue ramdisk callback", "timeout reached while cleaning the node",
			"timeout reached while servicing the node", "timeout reached while inspecting the node", "introspection timeout", "the ramdisk has not called ironic"}},
	{Meaning{"RamdiskUnknown", "Ironic does not know which ramdisk to boot.",
		"The administrator has to start the server with --deploy-kernel-url and --deploy-ramdisk-url, or set the ramdisk in Ironic."},
		[]string{"missing are: * deploy_kernel", "missing are: * deploy_ramdisk", "missing are: * deploy_iso"}},
	{Meaning{NoImageYet, "The node has no image to deploy.", ""},
		[]string{"missing are: * image_source"}},
	{Meaning{"NoPort", "The node has no port in Ironic, so it cannot boot from the network.",
		"Check spec.bootMACAddress; or inspect the host, which finds its ports."},
		[]string{"does not have any port associated with it"}},
	{Meaning{"PortTaken", "Another node in Ironic has this MAC address.",
		"`openstack baremetal port list --address` with the MAC address finds the node. Delete its port if that is wrong. If a host is, detach it before you delete it, or what it runs is erased."},
		[]string{"a port with mac address * already exists"}},
	{Meaning{"AgentBusy", "The ramdisk is still executing another command.", ""},
		[]string{"agent is busy", "agent is presently executing a command"}},
	{Meaning{"ConfigDrive", "The config drive could not be prepared.",
		"Check the Secrets with userData, networkData and metaData: together, they may have become too large."},
		[]string{"failed to prepare the configdrive", "failed to store the configdrive", "failed to upload the configdrive", "config drive * exceeds maximum size"}},
}

// NoImageYet is that Ironic misses the image of a node: each that is not being deployed has none.
const NoImageYet Kind = "NoImageYet"

var conductorRules = []rule{
	{Meaning{"Interrupted", "Ironic was restarted while it worked on the machine.", ""},
		[]string{"state can't be resumed by conductor", "aborted due to conductor take over"}},
	{Meaning{"NoWorker", "Ironic is too busy to begin.",
		"If that lasts, the administrator of Ironic has to raise the number of its workers ([conductor]workers_pool_size)."},
		[]string{"no free conductor workers available", "lack of free conductor workers"}},
	{Meaning{"ConcurrencyLimit", "Ironic already deploys or cleans as many machines as it may.",
		"It begins when others have ended. The administrator of Ironic can raise [conductor]max_concurrent_deploy and max_concurrent_clean."},
		[]string{"concurrent action limit"}},
	{Meaning{"NodeLocked", "Ironic is doing something else with the machine.", ""},
		[]string{"is locked by host", "is presently locked and we are unable"}},
	{Meaning{"NodeProtected", "Somebody has protected the node in Ironic.",
		"If the machine may be undeployed, rebuilt or deleted, end that in Ironic: `openstack baremetal node unset --protected` with the node that the error names. Otherwise, take the change back."},
		[]string{"is protected and cannot be undeployed, rebuilt or deleted"}},
	{Meaning{"NodeRetired", "Somebody has retired the node in Ironic, so that nothing more is deployed on it.",
		"If the machine is to be used again, end that in Ironic: `openstack baremetal node unset --retired` with the node that the error names. Otherwise, delete the host."},
		[]string{"because it is retired"}},
	{Meaning{"NoConductor", "No conductor of Ironic works on this machine.",
		"Check that the conductors of Ironic run, those of the node's conductor group too, and that they have its driver enabled."},
		[]string{"no valid host was found"}},
	{Meaning{"DriverNotEnabled", "Ironic does not have the driver of the host enabled.",
		"The administrator of Ironic has to add it to enabled_hardware_types, or spec.bmc.address has to name another one."},
		[]string{"could not find the following driver(s) or hardware type(s)"}},
	{Meaning{"InterfaceNotEnabled", "Ironic does not have an interface enabled that the driver of the host needs.",
		"The administrator of Ironic has to add it to the option enabled_..._interfaces."},
		[]string{"could not find the following interface in the", "no default value found for"}},
	{Meaning{"Aborted", "This was aborted in Ironic by request.",
		"Ironic's log names the request."},
		[]string{"by request, the", "inspection was aborted by request"}},
	{Meaning{"InMaintenance", "Ironic has ended this because the node is in maintenance.",
		"End the maintenance: kubectl bmh maintenance off {host}, or in Ironic."},
		[]string{"aborted as node is in maintenance mode", "cleaning a node in maintenance mode is not allowed", "because it's in maintenance mode"}},
}

var settingsRules = []rule{
	{Meaning{"BIOSNotApplied", "The BMC has not applied all BIOS settings.",
		"Correct the settings that the error names. kubectl get firmwareschemas shows which values a machine accepts."},
		append([]string{"attributes * are not updated", "redfish bios apply_configuration failed * invalid value for setting"}, aboutValue("redfish bios apply configuration failed")...)},
	{Meaning{"BIOSRefused", "The BMC has not taken the BIOS settings, and does not say that one of them is wrong.",
		"The end of the error has the words of the BMC. If they name a setting, correct that; otherwise, look at the jobs and the log of the BMC at {address}. The server tries again by itself."},
		[]string{"redfish bios apply configuration failed"}},
	{Meaning{"FirmwareNotUpdated", "The BMC has not updated the firmware.",
		"Check that the BMC reaches the URL of the firmware, and that the file is for this model. The log of the BMC may say more."},
		[]string{"firmware update failed for node", "firmware update on node * has exceeded the overall timeout"}},
	{Meaning{"RAIDNotPossible", "The machine cannot have the RAID that the spec asks for.",
		"Correct spec.raid. Its physicalDisks and controller are Ids, in the same letters as below Storage of the BMC, which also has the sizes."},
		// If the machine has none of the disks, the words are Python's: Ironic looks for the smallest of no disks.
		[]string{"failed to find matching physical disks", "no storage controller found for node", "couldn't find storage by",
			"create_configuration * min() iterable argument is empty", "create_configuration * min() arg is an empty sequence",
			"raid level * is not supported", "physical disk space * is not enough", "free space of a disk * is not enough", "number of physical drives * is too few",
			"could not allocate physical disk space", "number of physical disks provided"}},
	{Meaning{"NoSuchStep", "Neither the driver nor the ramdisk has a step that was asked for.",
		"Correct the name of the step, which for a deployment is spec.customDeploy.method, or have the ramdisk include it."},
		[]string{"node does not support this"}},
	{Meaning{"NotSupported", "The driver or the BMC does not support this.",
		"Leave that out of the spec, or use a driver that supports it (spec.bmc.address)."},
		[]string{"(disabled or not implemented)", "bios settings are not supported", "is not supported by hardware type"}},
}
