// Package ironicsync is the engine that keeps BareMetalHosts and Ironic's nodes in
// step, in both directions. It is made of these packages; each imports only those
// above it:
//
//   - deploy: what a host is to run, as Ironic wants it (config drive, instance_info,
//     root device). Pure.
//   - settings: what Ironic has to do so that a machine has the settings that users ask
//     for (RAID, BIOS), and what is recorded of that. Pure.
//   - lifecycle: Observe turns what Ironic says into a status, Next decides the next
//     step towards Ironic. Pure: neither a context nor a clock nor a client.
//   - secrets: what the Secrets of hosts say, and who owns them.
//   - firmware: the HostFirmwareSettings and FirmwareSchemas of hosts, kept up to date.
//   - live: what Ironic says now, recorded in etcd before anybody is shown it.
//   - drive: the leader's work. It takes a host from its queue, asks Next for the one
//     thing to do now, does it, and has it observed.
//   - controller: what the small controllers of the kinds other than BareMetalHost share.
//     Each of them has a package of its own: dataimage,
//     networkswitch, subscription.
package ironicsync
