// SPDX-License-Identifier: Apache-2.0

// Package why explains in sentences what a host is doing or waiting for, since when, and what
// would help. It only computes: it is given everything, the time included.
//
// Start reading with Explain in why.go; problem.go is about errors and holds, and help.go about what helps.
package why
