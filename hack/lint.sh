#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs gofmt, the analyzers of hack/tools/lint (staticcheck's, go vet's, errorlint, bodyclose and exhaustive), depguard, which
# checks the boundaries between the packages (.depguard.yaml), and misspell, looks for the licence in each file, and checks
# that the faults of hack/faults fit the code. All of them run even if one fails.
set -euo pipefail
cd "$(dirname "$0")/.."
. hack/goflags.sh

hack/build-linters.sh
mapfile -t packages < <(go list ./... | grep -v /pkg/generated/)
mapfile -t files < <(find . -name '*.go' -not -path './pkg/generated/*' -not -path './bin/*')
status=0

# All linters need the packages to be compiled, and would do so without showing progress.
GOGC=400 go build -v ./... 2>&1 | hack/progress.sh "all packages"

echo "gofmt"
unformatted=$(gofmt -l "${files[@]}")
if [ -n "$unformatted" ]; then
	printf 'not formatted, run gofmt -w:\n%s\n' "$unformatted"
	status=1
fi
echo "licence headers"
mapfile -t scripts < <(find hack artifacts test -name '*.sh')
without=$(grep -L 'SPDX-License-Identifier: Apache-2.0' "${files[@]}" "${scripts[@]}" .ci/run || true)
if [ -n "$without" ]; then
	printf 'without the line "SPDX-License-Identifier: Apache-2.0":\n%s\n' "$without"
	status=1
fi
echo "analyzers"
GOGC=400 bin/lint/lint "${packages[@]}" || status=1
echo "depguard"
bin/lint/depguard "${packages[@]}" || status=1
echo "misspell"
bin/lint/misspell -error -i adress,accesss,creater,transferer "${files[@]}" README.md CONTRIBUTING.md SECURITY.md docs || status=1
echo "faults"
hack/faults.sh --check || status=1
exit $status
