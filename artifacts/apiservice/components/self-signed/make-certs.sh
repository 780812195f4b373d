#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Creates the serving certificate of metal3-apiserver, which is valid for one year,
# and, on the first run, the authority that signs it, which is valid for ten years.
# To renew the certificate, run the script again and apply again. The authority stays
# the same, so nothing is interrupted. Keep ca.key: it is needed for the renewal, and
# is not sent to the cluster.
set -eu
cd "$(dirname "$0")"
umask 077

command -v openssl >/dev/null || {
	echo "make-certs.sh: openssl is not installed" >&2
	exit 1
}
host=metal3-apiserver.metal3-system.svc
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Do not use the system's configuration, because what it adds to a certificate varies.
cat >"$work/openssl.cnf" <<END
[req]
distinguished_name = name
[name]
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[server]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
subjectAltName = DNS:$host, DNS:$host.cluster.local
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
END

key() { openssl ecparam -genkey -name prime256v1 -noout -out "$1"; }

if [ ! -e ca.key ] || [ ! -e ca.crt ]; then
	key "$work/ca.key"
	openssl req -x509 -new -key "$work/ca.key" -sha256 -days 3650 -subj /CN=metal3-apiserver-ca \
		-config "$work/openssl.cnf" -extensions authority -out "$work/ca.crt"
	mv "$work/ca.key" "$work/ca.crt" .
	echo "created a certificate authority: $PWD/ca.crt"
fi

key "$work/tls.key"
openssl req -new -key "$work/tls.key" -sha256 -subj "/CN=$host" -config "$work/openssl.cnf" -out "$work/tls.csr"
openssl x509 -req -in "$work/tls.csr" -CA ca.crt -CAkey ca.key -set_serial "0x$(openssl rand -hex 16)" \
	-sha256 -days 365 -extfile "$work/openssl.cnf" -extensions server -out "$work/tls.crt" 2>"$work/log" || {
	cat "$work/log" >&2
	exit 1
}
mv "$work/tls.key" "$work/tls.crt" .
echo "created a certificate for $host: $PWD/tls.crt"
