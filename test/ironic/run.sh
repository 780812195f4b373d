#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs a real Ironic in the foreground, from the folder that root.sh makes:
#   run.sh RELEASE
# API and conductor in one process, sqlite, no other service: http://127.0.0.1:PORT.
# It logs to its standard error. Knobs (environment):
#   IRONIC_PORT         6385
#   IRONIC_NAME         name of the state folder, FOLDER/state/NAME (ironic-PORT); kept between runs
#   IRONIC_FRESH=1      start with an empty database
#   IRONIC_USER, IRONIC_PASSWORD   both set: HTTP basic authentication
#   IRONIC_KEYSTONE_URL            of a Keystone, as in https://127.0.0.1:5000/v3, which has the users; then also
#   IRONIC_KEYSTONE_CA, IRONIC_KEYSTONE_PASSWORD   a file with the authority that signed its certificate,
#                       and the password of the user "ironic" in the project "service"
#                       Without any of them, there is no authentication
#   IRONIC_EXTRA_CONF   a file in ironic.conf's format that overrides what is below
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
release=${1:?"usage: run.sh bookworm|trixie|sid"}
root=$("$here/root.sh" "$release")
port=${IRONIC_PORT:-6385}
in=/state/${IRONIC_NAME:-ironic-$port} # as Ironic sees it
dir=$root$in                           # as we see it
major=$(cut -d. -f1 "$root/ironic-version")
umask 077

[ "${IRONIC_FRESH:-0}" = 1 ] && rm -rf "$dir"
mkdir -p "$dir"/{bin,http,lib,lock,tftp,tmp}
if ! [ -e "$dir/ironic.sqlite" ]; then
	cp "$root/schema.sqlite" "$dir/new.sqlite"
	# With a write-ahead log, as in Metal3's image, readers keep no writer waiting: Ironic gives up where it does not repeat a write.
	chroot "$root" /usr/bin/python3 -c "import sqlite3; sqlite3.connect('$in/new.sqlite').execute('pragma journal_mode=wal')"
	mv "$dir/new.sqlite" "$dir/ironic.sqlite"
fi
rm -f "$dir/bin/ipmitool"
install -m 755 "$here/socat" "$dir/bin/socat"
[ "$release" = bookworm ] && install -m 755 "$here/ipmitool" "$dir/bin/ipmitool"

# Debian's sushy lacks its folder of standard registries. Without the folder Ironic
# cannot read any, so BIOS settings of a Redfish host have no type and no limits.
mkdir -p "$root/usr/lib/python3/dist-packages/sushy/standard_registries"

auth=noauth
if [ -n "${IRONIC_USER:-}" ] && [ -n "${IRONIC_PASSWORD:-}" ]; then
	auth=http_basic
	# Ironic takes bcrypt only and computes it for every request: a low cost keeps requests quick.
	printf '%s\n%s' "$IRONIC_USER" "$IRONIC_PASSWORD" | chroot "$root" /usr/bin/python3 -c '
import bcrypt, sys
user, password = sys.stdin.read().split("\n", 1)
print(user + ":" + bcrypt.hashpw(password.encode(), bcrypt.gensalt(5)).decode())' >"$dir/htpasswd"
fi

keystone=
if [ -n "${IRONIC_KEYSTONE_URL:-}" ]; then
	auth=keystone
	install -m 600 "$IRONIC_KEYSTONE_CA" "$dir/keystone-ca.crt"
	keystone="[keystone_authtoken]
auth_type = password
auth_url = $IRONIC_KEYSTONE_URL
www_authenticate_uri = $IRONIC_KEYSTONE_URL
cafile = $in/keystone-ca.crt
username = ironic
password = $IRONIC_KEYSTONE_PASSWORD
project_name = service
user_domain_id = default
project_domain_id = default
# Each request has its token verified, so that a revocation counts at once.
token_cache_time = -1"
fi

# The agent's own inspection and firmware interfaces came with Ironic 22 and 23;
# before, inspection was another service, ironic-inspector, which is not here.
if [ "$major" -ge 23 ]; then
	inspect=agent firmware='enabled_firmware_interfaces = fake,no-firmware,redfish'
else
	inspect=inspector firmware=
fi

# Ironic 29 lets a ramdisk look its node up in "service wait" only with fast track, which Metal3's Ironic has
# and which would skip boots here, or in all states.
restrict_lookup=true
[ "$major" -ge 23 ] && [ "$major" -lt 32 ] && restrict_lookup=false

# Ironic 29 runs all its green threads in one thread, and may switch away from the one that holds the lock of
# sqlite. If another one then waits for the lock, for five seconds by default, it blocks all of them, also the one
# that would release it. Ironic repeats writes that fail because of the lock, so they need not wait for it.
# (21.4 repeats nothing, and 39.0 has real threads.)
busy=
[ "$major" -ge 23 ] && [ "$major" -lt 32 ] && busy='?timeout=0.1'

cat >"$dir/ironic.conf" <<C
[DEFAULT]
auth_strategy = $auth
http_basic_auth_user_file = $in/htpasswd
# API and conductor are one process: nothing to call remotely.
rpc_transport = none
host = conductor-0
my_ip = 127.0.0.1
state_path = $in/lib
tempdir = $in/tmp
use_stderr = true
enabled_hardware_types = fake-hardware,ipmi,redfish,manual-management
enabled_bios_interfaces = fake,no-bios,redfish
enabled_boot_interfaces = fake,pxe,ipxe,redfish-virtual-media
enabled_console_interfaces = fake,no-console,ipmitool-socat
enabled_deploy_interfaces = fake,direct,custom-agent,ramdisk
$firmware
enabled_inspect_interfaces = fake,no-inspect,redfish,$inspect
enabled_management_interfaces = fake,ipmitool,noop,redfish
enabled_network_interfaces = noop
default_network_interface = noop
enabled_power_interfaces = fake,ipmitool,redfish
enabled_raid_interfaces = fake,no-raid,agent,redfish
enabled_rescue_interfaces = fake,no-rescue,agent
enabled_storage_interfaces = noop,fake
enabled_vendor_interfaces = fake,no-vendor,ipmitool,redfish
$keystone
[agent]
# A ramdisk that a test plays speaks plain HTTP.
require_tls = false
[api]
host_ip = 127.0.0.1
port = $port
restrict_lookup = $restrict_lookup
[database]
connection = sqlite:///$in/ironic.sqlite$busy
sqlite_synchronous = false
[oslo_concurrency]
lock_path = $in/lock
[console]
socat_address = 127.0.0.1
# Ironic takes a port that is free.
port_range = 27000:27999
[conductor]
automated_clean = true
# The default lets Ironic switch a machine back when somebody pressed its power button; Metal3 does not want that.
force_power_state_during_sync = false
# Quick, for tests: the defaults are 60, 3, 300, 60, 60 and 1800 s.
sync_power_state_interval = 5
power_state_sync_max_retries = 1
power_failure_recovery_interval = 5
power_state_change_timeout = 10
check_provision_state_interval = 5
deploy_callback_timeout = 60
clean_callback_timeout = 60
inspect_wait_timeout = 60
heartbeat_interval = 2
[deploy]
http_url = http://127.0.0.1:6180
http_root = $in/http
# A BMC gets the URL of an ISO as it is in deploy_iso. By default Ironic makes a copy, which
# nobody serves here, and Ironic 29.0 fails when a step boots the same ISO once more.
ramdisk_image_download_source = http
[pxe]
tftp_root = $in/tftp
[dhcp]
dhcp_provider = none
[service_catalog]
auth_type = none
endpoint_override = http://127.0.0.1:$port
[inspector]
auth_type = none
endpoint_override = http://127.0.0.1:5050
# A test posts the inventory itself; nothing boots a ramdisk from the network.
require_managed_boot = false
[ipmi]
# One try per command: a BMC that is away is noticed in 2 s; by default it takes 70 s. 0 ends in a division by zero.
command_retry_timeout = 1
min_command_interval = 1
# With true the error names the time-out of a command, not what IPMI said.
kill_on_timeout = false
use_ipmitool_retries = false
[redfish]
# One try, as above; by default a dead BMC holds the node for a quarter of a minute, in Ironic 39 for longer.
connection_attempts = 1
connection_retry_interval = 1
# For a BMC that takes a request and says nothing. Ironic 39 asks such a one several times, a minute each by default; older ones do not know the option.
read_timeout = 10
# Tasks of BMCs are polled every second; by default Ironic takes a minute for each look, and Ironic 39 minutes
# more until it trusts a BMC after an update. 0 would switch the first four off. Older ones know only those.
firmware_update_status_interval = 1
firmware_update_fail_interval = 1
raid_config_status_interval = 1
raid_config_fail_interval = 1
firmware_update_reboot_delay = 20
firmware_update_bmc_version_check_interval = 1
firmware_update_nic_starting_wait = 1
firmware_update_required_successes = 1
firmware_update_validation_interval = 1
# Ironic 21.4 looks for an object store when it ejects a virtual CD; newer ones do not.
use_swift = false
[oslo_messaging_notifications]
driver = noop
C
extra=()
if [ -n "${IRONIC_EXTRA_CONF:-}" ]; then
	cp "$IRONIC_EXTRA_CONF" "$dir/extra.conf"
	extra=(--config-file "$in/extra.conf")
fi

run=(/usr/bin/env -i HOME=/root LANG=C.UTF-8 PATH="$in/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	/usr/bin/ironic --config-file "$in/ironic.conf" "${extra[@]}")
# socat, which serves a serial console, needs a pty, and Ironic looks for its process in /proc.
# They are mounted for this process only, so that they end with it.
if unshare --mount true 2>/dev/null; then
	exec unshare --mount sh -c 'mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && exec chroot "$@"' sh "$root" "${run[@]}"
fi
echo "run.sh: mounts are not permitted here, so that there are no serial consoles" >&2
exec chroot "$root" "${run[@]}"
