# SPDX-License-Identifier: Apache-2.0
#
# The flags that all programs, tests and linters are compiled with, for scripts that source this file, and the Makefile: what they
# have in common is then compiled once, in all folders. Nobody debugs these programs, and without DWARF the compiler takes a
# fifth less time.
case ${GOFLAGS-} in
*-dwarf=false*) ;;
*) export GOFLAGS="${GOFLAGS-} -trimpath -buildvcs=false -gcflags=all=-dwarf=false" ;;
esac
export CGO_ENABLED=0
