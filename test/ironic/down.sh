#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Stops what up.sh started, with the same knobs:
#   down.sh RELEASE            keeps the database
#   IRONIC_WIPE=1 down.sh RELEASE
set -euo pipefail
release=${1:?"usage: down.sh bookworm|trixie|sid"}
cache=${IRONIC_ROOT_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/metal3-apiserver}
dir=$cache/ironic-$release/state/${IRONIC_NAME:-ironic-${IRONIC_PORT:-6385}}

if [ -f "$dir/ironic.pid" ]; then
	pid=$(cat "$dir/ironic.pid") # of a session of its own: also the number of its process group
	kill -TERM "$pid" 2>/dev/null || true
	for _ in $(seq 100); do
		kill -0 "$pid" 2>/dev/null || break
		sleep 0.1
	done
	kill -KILL -- "-$pid" 2>/dev/null || true
	rm -f "$dir/ironic.pid"
fi
[ "${IRONIC_WIPE:-0}" = 1 ] && rm -rf "$dir"
exit 0
