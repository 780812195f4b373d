#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Shows the progress of a build: reads the output of `go build -v`, counts the packages
# and prints all other messages. NAME is what is being built.
#   go build -v ... 2>&1 | hack/progress.sh NAME
# On a terminal, it updates a single line. Elsewhere, it prints a line every 30 s,
# because some CI systems stop a job that prints nothing.
set -euo pipefail
name=${1:?"usage: progress.sh NAME"}
n=0 started=$SECONDS said=$SECONDS
while IFS= read -r line; do
	if [[ $line == *[!a-zA-Z0-9._/~-]* && $line != "go: downloading "* ]]; then
		# This is neither the path of a package nor a download, so it is a message.
		[ -t 2 ] && [ "$n" -gt 0 ] && printf '\n' >&2
		printf '%s\n' "$line" >&2
		continue
	fi
	[[ $line == "go: "* ]] || n=$((n + 1))
	if [ -t 2 ]; then
		printf '\r%s: %d packages compiled, %d s ' "$name" "$n" $((SECONDS - started)) >&2
	elif [ $((SECONDS - said)) -ge 30 ]; then
		said=$SECONDS
		printf '%s: %d packages compiled, %d s\n' "$name" "$n" $((SECONDS - started)) >&2
	fi
done
[ -t 2 ] && [ "$n" -gt 0 ] && printf '\n' >&2
exit 0
