#!/bin/sh
# Makes the serving certificate of metal3-apiserver, good for a year, and on the
# first run the authority that signs it, good for ten. Run it again to renew the
# certificate, then apply again: the authority stays, so nothing is interrupted.
# Keep ca.key: it is needed then, and is not sent to the cluster.
set -eu
cd "$(dirname "$0")"
umask 077

command -v openssl >/dev/null || {
	echo "make-certs.sh: openssl is needed" >&2
	exit 1
}
host=metal3-apiserver.metal3-system.svc
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Not the system's configuration: what that adds to a certificate differs.
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
	echo "made an authority: $PWD/ca.crt"
fi

key "$work/tls.key"
openssl req -new -key "$work/tls.key" -sha256 -subj "/CN=$host" -config "$work/openssl.cnf" -out "$work/tls.csr"
openssl x509 -req -in "$work/tls.csr" -CA ca.crt -CAkey ca.key -set_serial "0x$(openssl rand -hex 16)" \
	-sha256 -days 365 -extfile "$work/openssl.cnf" -extensions server -out "$work/tls.crt" 2>"$work/log" || {
	cat "$work/log" >&2
	exit 1
}
mv "$work/tls.key" "$work/tls.crt" .
echo "made a certificate for $host: $PWD/tls.crt"
