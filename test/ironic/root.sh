#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Makes a Debian folder with a real Ironic or Keystone in it, and prints its path:
#   root.sh bookworm|trixie|sid        (Ironic 21.4, 29.0, the newest)
#   root.sh keystone                   (Keystone 27.0 of trixie, in a folder of its own)
# One that is complete is left alone; one that was interrupted is made again.
# Needs root, on Debian or Ubuntu; installs mmdebstrap when it is not there.
# The mirror, its key, the proxy and the other settings are those of this
# machine's own apt. Knobs:
#   IRONIC_ROOT_DIR   where the folders are    (~/.cache/metal3-apiserver)
#   DEBIAN_MIRROR     another mirror than that of this machine
set -euo pipefail
what=${1:?"usage: root.sh bookworm|trixie|sid|keystone"}
cache=${IRONIC_ROOT_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/metal3-apiserver}
if [ "$what" = keystone ]; then
	program=keystone release=trixie name=keystone-trixie
	packages=python3-keystone,gunicorn,ca-certificates
else
	program=ironic release=$what name=ironic-$what
	packages=ironic-api,ironic-conductor,python3-sushy,python3-bcrypt,ipmitool,openipmi,socat,ca-certificates
fi
root=$cache/$name
log=$cache/$name.log

say() { echo "root.sh: $*" >&2; }
fail() { say "$@"; exit 1; }

complete() { [ "$(cat "$root/.complete" 2>/dev/null)" = "$packages" ]; }
complete && { echo "$root"; exit 0; }

[ "$(id -u)" = 0 ] || fail "a Debian folder can only be made by root (mknod, chroot)"
command -v apt-get >/dev/null || fail "needs apt-get: Debian or Ubuntu"
mkdir -p "$cache"
exec 9>"$cache/.lock-$what"
flock 9 # two test runs at once: the second one finds the first one's work
complete && { echo "$root"; exit 0; }
started=$SECONDS

if ! command -v mmdebstrap >/dev/null || [ ! -e /usr/share/keyrings/debian-archive-keyring.gpg ]; then
	say "installing mmdebstrap"
	apt-get update -q >&2
	DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends \
		mmdebstrap debian-archive-keyring ca-certificates >&2
fi

# The source of this machine's own release, turned to the wanted one. All that
# belongs to it (URIs, Signed-By, Trusted) stays as it is. Empty on Ubuntu:
# mmdebstrap then uses Debian's default mirror and the archive's own keys.
sources() {
	local codename file
	codename=$(. /etc/os-release && [ "$ID" = debian ] && echo "${VERSION_CODENAME:-sid}")
	[ -n "$codename" ] || return 0
	for file in /etc/apt/sources.list.d/*.sources; do
		[ -e "$file" ] || continue
		awk -v RS= -v have="$codename" -v want="$release" '
			("\n" $0 " ") ~ ("\nSuites:[^\n]*[ \t]" have "[ \t\n]") && /\nComponents:[^\n]*main/ && !/Enabled:[ \t]*no/ {
				gsub(/(^|\n)#[^\n]*/, ""); sub(/^\n/, "")
				sub(/Suites:[^\n]*/, "Suites: " want)
				sub(/Components:[^\n]*/, "Components: main")
				sub(/Types:[^\n]*/, "Types: deb")
				print; found = 1; exit
			}
			END { exit !found }' "$file" && return 0
	done
	for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
		[ -e "$file" ] || continue
		sed -nE "s,^(deb[[:space:]]+(\[[^]]*\][[:space:]]+)?[^[:space:]]+)[[:space:]]+${codename}[[:space:]]+.*\bmain\b.*,\1 $release main,p" "$file" |
			grep -m1 . && return 0
	done
}

args=(--mode=root --variant=minbase --include="$packages")
args+=(--dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*')
while IFS= read -r setting; do args+=(--aptopt="$setting"); done < <(
	apt-config dump | grep -E '^Acquire::(http|https|Check-|Retries|ForceIPv|AllowInsecure|AllowWeak|AllowDowngrade)[^ ]* "[^"]+";$')
# Credentials of the mirror are for the making only.
auth=$(find /etc/apt/auth.conf /etc/apt/auth.conf.d -type f 2>/dev/null || true)
if [ -n "$auth" ]; then
	args+=(--setup-hook='mkdir -p "$1/etc/apt/auth.conf.d"; cat /etc/apt/auth.conf /etc/apt/auth.conf.d/*.conf 2>/dev/null >"$1/etc/apt/auth.conf.d/host.conf" || true')
	args+=(--customize-hook='rm -f "$1/etc/apt/auth.conf.d/host.conf"')
fi
# sid's index is valid for a week only, and a mirror may be a snapshot.
[ "$release" = sid ] && args+=(--aptopt='Acquire::Check-Valid-Until "false"')

new=$root.new
rm -rf --one-file-system "$new" "$root"
line=$(sources)
if [ -n "${DEBIAN_MIRROR:-}" ]; then
	set -- "$DEBIAN_MIRROR"
elif [ -n "$line" ]; then
	set -- - # mmdebstrap reads sources from its standard input
else
	set --
fi
say "making $root ($packages), one to three minutes"
printf '%s\n' "$line" | mmdebstrap "${args[@]}" "$release" "$new" "$@" >"$log" 2>&1 || {
	tail -n 30 "$log" >&2
	fail "mmdebstrap failed; all of its output is in $log"
}

in_root() {
	chroot "$new" "$@" >>"$log" 2>&1 || {
		tail -n 30 "$log" >&2
		fail "$1 failed in $new"
	}
}

# The schema takes seconds to make: once, here. run.sh and keystone-run.sh copy it.
if [ "$program" = keystone ]; then
	cat >"$new/schema.conf" <<'C'
[DEFAULT]
use_stderr = true
[database]
connection = sqlite:////schema.sqlite
[fernet_tokens]
key_repository = /fernet-keys
[credential]
key_repository = /credential-keys
C
	in_root mkdir -m 700 /fernet-keys /credential-keys
	in_root /usr/bin/keystone-manage --config-file /schema.conf db_sync
	in_root /usr/bin/keystone-manage --config-file /schema.conf fernet_setup --keystone-user root --keystone-group root
	in_root /usr/bin/keystone-manage --config-file /schema.conf credential_setup --keystone-user root --keystone-group root
else
	printf '[DEFAULT]\nuse_stderr = true\n[database]\nconnection = sqlite:////schema.sqlite\n' >"$new/schema.conf"
	in_root /usr/bin/ironic-dbsync --config-file /schema.conf create_schema
fi
chroot "$new" /usr/bin/python3 -c "import importlib.metadata as m; print(m.version('$program'))" >"$new/$program-version"

mv "$new" "$root"
echo "$packages" >"$root/.complete"
say "$program $(cat "$root/$program-version") of $release is in $root, made in $((SECONDS - started)) s"
echo "$root"
