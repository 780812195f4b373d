#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Starts a real Ironic in the background and waits until it answers:
#   up.sh bookworm|trixie|sid        the knobs are those of run.sh
# One that is up already is left alone. Its log is FOLDER/state/NAME/ironic.log.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
release=${1:?"usage: up.sh bookworm|trixie|sid"}
root=$("$here/root.sh" "$release")
port=${IRONIC_PORT:-6385}
dir=$root/state/${IRONIC_NAME:-ironic-$port}
pid=$dir/ironic.pid log=$dir/ironic.log

# GET / needs neither a conductor nor a password: /v1/drivers proves both.
healthy() {
	IRONIC_PORT=$port chroot "$root" /usr/bin/python3 - 2>/dev/null <<'P'
import base64, os, urllib.request
request = urllib.request.Request("http://127.0.0.1:%s/v1/drivers" % os.environ["IRONIC_PORT"])
user, password = os.environ.get("IRONIC_USER"), os.environ.get("IRONIC_PASSWORD")
if user and password:
    request.add_header("Authorization", "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode())
assert b"fake-hardware" in urllib.request.urlopen(request, timeout=3).read()
P
}
alive() { [ -f "$pid" ] && kill -0 "$(cat "$pid")" 2>/dev/null; }

url=http://127.0.0.1:$port
if alive; then
	if [ "${IRONIC_FRESH:-0}" != 1 ] && healthy; then
		echo "already up: $url"
		exit 0
	fi
	"$here/down.sh" "$release"
fi
[ "${IRONIC_FRESH:-0}" = 1 ] && rm -rf "$dir"
mkdir -p "$dir"
IRONIC_FRESH=0 setsid "$here/run.sh" "$release" >>"$log" 2>&1 </dev/null &
echo $! >"$pid"
deadline=$((SECONDS + 60))
while [ $SECONDS -lt $deadline ] && alive; do
	if healthy; then
		echo "up: $url (Ironic $(cat "$root/ironic-version"), log $log)"
		exit 0
	fi
	sleep 0.1
done
tail -n 30 "$log" >&2
echo "up.sh: Ironic did not come up; its log is $log" >&2
"$here/down.sh" "$release"
exit 1
