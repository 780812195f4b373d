// SPDX-License-Identifier: Apache-2.0

// Package settings computes what Ironic has to do so that a machine has the settings that users
// ask for: its RAID layout, its BIOS settings and its firmware. It depends on nothing but its arguments. Each
// kind of setting implements one small interface; the planner and the executor know none of them
// by name.
//
// It may not import anything that acts. Start reading with the interface setting in settings.go; raid.go,
// bios.go and components.go implement it.
package settings
