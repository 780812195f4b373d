#!/usr/bin/env bash
# Shows that a build is alive: reads what `go build -v` prints, counts the packages
# and passes messages on. NAME says what is built.
#   go build -v ... 2>&1 | hack/progress.sh NAME
# On a terminal it is one line; elsewhere a line every 30 s, as some CI systems
# stop a job that is silent.
set -euo pipefail
name=${1:?"usage: progress.sh NAME"}
n=0 started=$SECONDS said=$SECONDS
while IFS= read -r line; do
	if [[ $line == *[!a-zA-Z0-9._/~-]* && $line != "go: downloading "* ]]; then
		# Neither the path of a package nor a download: a message.
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
