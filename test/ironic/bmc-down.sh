#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Stops what bmc-up.sh started:
#   bmc-down.sh RELEASE PORT
set -euo pipefail
release=${1:?"usage: bmc-down.sh RELEASE PORT"} port=${2:?"usage: bmc-down.sh RELEASE PORT"}
cache=${IRONIC_ROOT_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/metal3-apiserver}
pid=$cache/ironic-$release/state/bmc-$port/pid
[ -f "$pid" ] && kill "$(cat "$pid")" 2>/dev/null
rm -f "$pid"
