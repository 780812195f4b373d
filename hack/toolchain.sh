# SPDX-License-Identifier: Apache-2.0
#
# The release of Go that releases are built with, for scripts that source this file: the newest patch of the minor release
# in go.mod, because the standard library has vulnerabilities, too. The go command downloads it from the module proxy.
export GOTOOLCHAIN=go1.26.10
