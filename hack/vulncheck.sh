#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Looks for known vulnerabilities in the code that this project calls, in the database
# of the Go project (https://vuln.go.dev, or GOVULNDB). It fails if some are found, and
# also if it could not look.
set -euo pipefail
cd "$(dirname "$0")/.."

hack/build-linters.sh
status=0
bin/lint/govulncheck ./... || status=$?
# Status 3 means that vulnerabilities were found.
if [ $status -ne 0 ] && [ $status -ne 3 ]; then
	echo "NOT CHECKED: see above. The vulnerability database is ${GOVULNDB:-https://vuln.go.dev}; if it cannot be reached from here, set GOVULNDB to a copy." >&2
fi
exit $status
