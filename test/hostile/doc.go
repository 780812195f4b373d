// SPDX-License-Identifier: Apache-2.0

// Package hostile fills objects with text that is not harmless where it is shown.
//
// Tests of whatever shows such text use it.
package hostile
