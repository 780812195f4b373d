#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Looks for known vulnerabilities in the code that a release of this project calls, with the standard library that it is
# built with, in the database of the Go project: https://vuln.go.dev, or GOVULNDB, or, where the first cannot be reached,
# the module golang.org/x/vulndb of the module proxy. It fails if some are found, and also if it could not look.
set -euo pipefail
cd "$(dirname "$0")/.."

hack/build-linters.sh

# Prints the URL of a database made from the module, which has the reports of the database some days later.
from_module() {
	local module dir
	module=$(go -C hack/tools mod download -json golang.org/x/vulndb@latest) || { echo "NOT CHECKED: golang.org/x/vulndb cannot be downloaded: $module" >&2; return 1; }
	dir=$(sed -n 's/^\t"Dir": "\(.*\)",$/\1/p' <<<"$module")
	(cd "$dir" && go run -mod=mod -modcacherw ./cmd/indexdb -vulns data/osv -out "$1") >&2
	echo "file://$1"
}

db=${GOVULNDB:-https://vuln.go.dev}
if [ -z "${GOVULNDB:-}" ] && ! curl -sf --max-time 20 -o /dev/null $db/index/db.json; then
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	db=$(from_module "$work/db")
	echo "https://vuln.go.dev cannot be reached; this is what the module golang.org/x/vulndb has" >&2
fi
status=0
. hack/toolchain.sh
bin/lint/govulncheck -db "$db" ./... || status=$?
# Status 3 means that vulnerabilities were found.
if [ $status -ne 0 ] && [ $status -ne 3 ]; then
	echo "NOT CHECKED: see above. The vulnerability database is $db; if it cannot be reached from here, set GOVULNDB to the URL of a copy." >&2
fi
exit $status
