#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Starts one simulated BMC in the background; see bmc-run.sh:
#   bmc-up.sh RELEASE PORT
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
release=${1:?"usage: bmc-up.sh RELEASE PORT"} port=${2:?"usage: bmc-up.sh RELEASE PORT"}
root=$("$here/root.sh" "$release")
dir=$root/state/bmc-$port

answers() {
	IPMI_PASSWORD=${BMC_PASSWORD:-password} chroot "$root" /usr/bin/ipmitool -I lanplus -C 3 -R 1 -N 1 \
		-H 127.0.0.1 -p "$port" -U "${BMC_USER:-admin}" -E power status >/dev/null 2>&1
}
if [ -f "$dir/pid" ] && kill -0 "$(cat "$dir/pid")" 2>/dev/null; then
	echo "already up: ipmi://127.0.0.1:$port"
	exit 0
fi
mkdir -p "$dir"
setsid "$here/bmc-run.sh" "$release" "$port" >"$dir/log" 2>&1 </dev/null &
deadline=$((SECONDS + 10))
while [ $SECONDS -lt $deadline ]; do
	if answers; then
		echo "up: ipmi://127.0.0.1:$port (state and faults: files in $dir)"
		exit 0
	fi
	sleep 0.1
done
cat "$dir/log" >&2
echo "bmc-up.sh: the BMC on port $port did not answer within 10 s" >&2
exit 1
