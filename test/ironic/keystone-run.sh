#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs a real Keystone in the foreground, from the folder that root.sh makes:
#   keystone-run.sh
# sqlite, Fernet tokens, one process: https://127.0.0.1:PORT/v3. It logs to its standard error, and
# each request to its standard output. Knobs (environment):
#   KEYSTONE_PORT       5000
#   KEYSTONE_NAME       name of the state folder, FOLDER/state/NAME (keystone-PORT); kept between runs
#   KEYSTONE_PASSWORD   of the user "admin", who is the administrator of everything. Required
#   KEYSTONE_CERT, KEYSTONE_KEY   files with the serving certificate and its key. Required
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
password=${KEYSTONE_PASSWORD:?} cert=${KEYSTONE_CERT:?} key=${KEYSTONE_KEY:?}
root=$("$here/root.sh" keystone)
port=${KEYSTONE_PORT:-5000}
in=/state/${KEYSTONE_NAME:-keystone-$port} # as Keystone sees it
dir=$root$in                               # as we see it
url=https://127.0.0.1:$port/v3
umask 077

mkdir -p "$dir"
new=
[ -e "$dir/keystone.sqlite" ] || { new=1; cp "$root/schema.sqlite" "$dir/new.sqlite" && mv "$dir/new.sqlite" "$dir/keystone.sqlite"; }
install -m 600 "$cert" "$dir/tls.crt"
install -m 600 "$key" "$dir/tls.key"

cat >"$dir/keystone.conf" <<C
[DEFAULT]
use_stderr = true
[cache]
# In the memory of the one process, which forgets what a change of a role makes untrue, so that it counts at once. Without a
# cache, each request to Ironic takes so many queries that a busy machine does not keep up with a server that asks again.
enabled = true
backend = oslo_cache.dict
[credential]
key_repository = /credential-keys
[database]
connection = sqlite:///$in/keystone.sqlite
sqlite_synchronous = false
[fernet_tokens]
key_repository = /fernet-keys
[identity]
# bcrypt computes a hash for each login: the lowest cost keeps logins quick.
password_hash_rounds = 4
[token]
provider = fernet
expiration = 36000
C

in_root=(chroot "$root" /usr/bin/env -i HOME=/root LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin
	OS_KEYSTONE_CONFIG_FILES="$in/keystone.conf")
if [ "$new" ]; then
	# With a write-ahead log, the readers of another process do not keep writers waiting, who would give up.
	"${in_root[@]}" /usr/bin/python3 -c "import sqlite3; sqlite3.connect('$in/keystone.sqlite').execute('pragma journal_mode=wal')"
	# Creates the project, the user and the roles of an administrator, and the catalog's entry of Keystone itself.
	"${in_root[@]}" /usr/bin/keystone-manage --config-file "$in/keystone.conf" bootstrap --bootstrap-password "$password" \
		--bootstrap-region-id RegionOne --bootstrap-public-url "$url" --bootstrap-internal-url "$url" --bootstrap-admin-url "$url"
fi
# Keystone takes the command line of gunicorn for its own unless it is cut off. One request at a time: sqlite refuses to write, and at
# once, for a transaction that has read before another one wrote, and Keystone answers 500 then.
cat >"$dir/serve.py" <<'C'
import sys
import threading
sys.argv = sys.argv[:1]
from keystone.server.wsgi import initialize_public_application
keystone = initialize_public_application()
one = threading.Lock()


def application(environ, start_response):
    with one:
        answer = keystone(environ, start_response)
        try:
            return list(answer)
        finally:
            answer.close()
C
# A connection on which no request has come yet takes a thread, and clients open some in advance.
exec "${in_root[@]}" /usr/bin/gunicorn --bind "127.0.0.1:$port" --workers 1 --worker-class gthread --threads 32 --chdir "$in" \
	--certfile "$in/tls.crt" --keyfile "$in/tls.key" --worker-tmp-dir /tmp --access-logfile - serve:application
