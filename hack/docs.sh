#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the documents as a site in bin/docs, with pages of reference that are made of the code, and fails if a link or an anchor
# leads nowhere. It needs mkdocs (in Debian, the package of this name) and bin/metal3-apiserver.
set -euo pipefail
cd "$(dirname "$0")/.."
. hack/goflags.sh

command -v mkdocs >/dev/null || { echo "docs.sh: there is no mkdocs: install it (on Debian or Ubuntu: apt-get install mkdocs)" >&2; exit 1; }
rm -rf bin/docs-reference
mkdir -p bin/docs-reference/reference
go run ./hack/docs bin/docs-reference/reference api words
{
	printf '# Flags\n\nThis is what `metal3-apiserver --help` prints. [Configuration](../configuration.md) explains those that matter.\n\n```\n'
	bin/metal3-apiserver --help
	printf '```\n'
} >bin/docs-reference/reference/flags.md
mkdocs build --quiet --config-file hack/docs/mkdocs.yml
