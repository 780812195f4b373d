// SPDX-License-Identifier: Apache-2.0

// Package robustness runs the real programs with random traffic and faults, records all that happens, and has the record judged:
// see test/robustness/validate for the rules, and docs/robustness.md for how to read a failure.
//
// It runs only if TIME is set, as `make robustness` does:
//
//	TIME      how long all scenarios together have traffic and faults, for example 10m
//	SEED      what the traffic and the faults are derived from; random if it is not set
//	SCENARIO  the name of the only scenario to run
//	RECORDS   the directory in which records of failed runs are kept; bin/robustness if it is not set
package robustness
