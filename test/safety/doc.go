// SPDX-License-Identifier: Apache-2.0

// Package safety tests what must never happen to a machine: that the server is killed, or that
// its etcd, Ironic's database or both are restored from a backup, and a disk is written that
// nobody wanted written, or the power is cut. The machines themselves keep the account.
//
// The Ironic is the simulator, or, with IRONIC=trixie, the real one of that Debian release with
// simulated machines. Each test has a server and an Ironic of its own. These variables make the
// tests longer than they are in `make test-all`, and `make soak` sets them:
//
//	HOSTS          how many hosts TestKilled and TestSuspended have: 20 on the simulator and 8 on a real Ironic otherwise
//	KILLS          how often TestKilled kills the server: 20 otherwise; 1000 take about an hour
//	SUSPENSIONS    how often TestSuspended suspends the server that leads: 5 times otherwise
//	SEED           the moments at which they do
//	HA             all has TestPartsDie kill and suspend all parts of the installation; make test-ha sets it
//	MOVE_HOSTS     how many hosts TestMoved has: 7 otherwise, and with HA=all one for each fate
//	RESTORE_HOSTS  how many hosts TestRestored has: 25 on the simulator and 10 on a real Ironic otherwise; 100 take minutes
package safety
