#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Puts axe.min.js, which checks pages against WCAG, into bin/. Without npm, it does nothing, and test/ui leaves those checks out.
set -euo pipefail
version=4.14.1
checksum=sha512-FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ==
bin=$(cd "$(dirname "$0")/../.." && pwd)/bin
[ -e "$bin/axe-$version.min.js" ] && exit 0
if ! command -v npm >/dev/null; then
	echo "axe.sh: there is no npm; checks of pages with axe are left out" >&2
	exit 0
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm pack --silent "axe-core@$version" >/dev/null
[ "sha512-$(openssl dgst -sha512 -binary "axe-core-$version.tgz" | base64 -w 0)" = "$checksum" ] || { echo "axe.sh: axe-core $version has another checksum" >&2; exit 1; }
tar -xzf "axe-core-$version.tgz" package/axe.min.js
mkdir -p "$bin"
mv package/axe.min.js "$bin/axe-$version.min.js"
