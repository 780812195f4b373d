#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs one simulated BMC (OpenIPMI's ipmi_sim, IPMI 2.0 over LAN) on 127.0.0.1:PORT
# in the foreground, from the folder that root.sh makes:
#   bmc-run.sh RELEASE PORT
# User and password: BMC_USER (admin), BMC_PASSWORD (password). Its power and
# its log are files in FOLDER/state/BMC_NAME (bmc-PORT): see bmc-chassis.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
release=${1:?"usage: bmc-run.sh RELEASE PORT"} port=${2:?"usage: bmc-run.sh RELEASE PORT"}
root=$("$here/root.sh" "$release")
in=/state/${BMC_NAME:-bmc-$port}
dir=$root$in
# Where the serial line of the machine is, if it has one: a TCP port on 127.0.0.1.
serial=${BMC_SERIAL:+"sol \"telnet:127.0.0.1:$BMC_SERIAL\" 115200"}
umask 077
mkdir -p "$dir/sim"
install -m 755 "$here/bmc-chassis" "$dir/bmc-chassis"

# chassis_control is what makes power control work; ipmi_sim's manual page only
# has startcmd, which answers "Invalid data field" to a power off.
cat >"$dir/lan.conf" <<C
name "bmc-$port"
set_working_mc 0x20
  startlan 1
    addr 127.0.0.1 $port
    priv_limit admin
    allowed_auths_callback none md2 md5 straight
    allowed_auths_user none md2 md5 straight
    allowed_auths_operator none md2 md5 straight
    allowed_auths_admin none md2 md5 straight
    guid a123456789abcdefa123456789abcdef
  endlan
  $serial
  chassis_control "$in/bmc-chassis $in"
  user 1 true  ""    "test" user  10 none md2 md5 straight
  user 2 true  "${BMC_USER:-admin}" "${BMC_PASSWORD:-password}" admin 10 none md2 md5 straight
C
cat >"$dir/sim.emu" <<'C'
mc_setbmc 0x20
mc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02
mc_enable 0x20
C
echo $$ >"$dir/pid"
exec chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin \
	/usr/bin/ipmi_sim -n -c "$in/lan.conf" -f "$in/sim.emu" -s "$in/sim"
