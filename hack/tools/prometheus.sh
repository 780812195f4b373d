#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Puts prometheus and promtool into bin/, from Debian's package: the tests check the alerts and
# the dashboard with them. The package is not installed, because that would also start a
# Prometheus. Without apt-get, it does nothing, and those tests are skipped.
set -euo pipefail
bin=$(cd "$(dirname "$0")/../.." && pwd)/bin
[ -x "$bin/prometheus" ] && [ -x "$bin/promtool" ] && exit 0
if ! command -v apt-get >/dev/null; then
	echo "prometheus.sh: there is no apt-get; tests that need prometheus are skipped" >&2
	exit 0
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
if ! apt-get download -qq prometheus 2>"$folder/error"; then
	if [ "$(id -u)" != 0 ]; then # the package lists may be missing, and only root can get them
		cat "$folder/error" >&2
		exit 1
	fi
	apt-get update -q >&2
	apt-get download -qq prometheus
fi
dpkg -x prometheus_*.deb .
mkdir -p "$bin"
mv usr/bin/prometheus usr/bin/promtool "$bin"
