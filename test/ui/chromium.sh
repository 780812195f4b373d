#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Prints the path of a Chromium without a window. If there is none, installs
# Debian's, which needs root. The fonts are for the pictures in docs/images.
set -euo pipefail

find_chromium() { command -v chromium-headless-shell || command -v chromium || command -v google-chrome; }
find_chromium && exit 0

fail() { echo "chromium.sh: $*" >&2; exit 1; }
[ "$(id -u)" = 0 ] || fail "no Chromium is in PATH, and only root can install it"
command -v apt-get >/dev/null || fail "no Chromium is in PATH, and it is installed from Debian packages: needs apt-get"
install() {
	DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -qy --no-install-recommends \
		chromium-headless-shell fonts-dejavu-core >&2
}
install || { apt-get update -q >&2 && install; } || fail "this distribution has no package chromium-headless-shell"
find_chromium
