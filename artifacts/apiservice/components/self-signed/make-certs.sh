#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Creates the serving certificate of metal3-apiserver, which is valid for one year,
# and, on the first run, the authority that signs it, which is valid for ten years.
# To renew the certificate, run the script again and apply again. The authority stays
# the same, so nothing is interrupted. Keep ca.key: it is needed for the renewal, and
# is not sent to the cluster.
#
# The script asks the cluster of kubectl which authority it trusts. If that is not the
# one in this folder, for example in another checkout, it creates nothing: until the
# pods had a new certificate, nothing of metal3.io would be served. Copy ca.key and
# ca.crt here. If ca.key is lost, if cert-manager made the certificate until now, or
# if there is no cluster yet that could be asked, run
#   make-certs.sh --new-authority
# which creates another authority. A former one that the script knows, from the cluster
# or this folder, is trusted as well, so nothing is interrupted then, either.
set -eu
cd "$(dirname "$0")"
umask 077

fail() {
	echo "make-certs.sh: $*" >&2
	exit 1
}
case $#:${1-} in
0:) new=false ;;
1:--new-authority) new=true ;;
*) fail "usage: make-certs.sh [--new-authority]" ;;
esac
command -v openssl >/dev/null || fail "openssl is not installed"
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

# The authority that signs is the first one in ca.crt, and what openssl reads of such a file.
signer() { openssl x509 -in "$1"; }

# What the cluster trusts: nothing if metal3-apiserver is not installed there.
asked=true
kubectl get apiservice v1alpha1.metal3.io --ignore-not-found --request-timeout=10s \
	-o go-template='{{with .spec.caBundle}}{{base64decode .}}{{end}}' >"$work/trusted.crt" 2>"$work/log" || asked=false
former=
if [ -s "$work/trusted.crt" ]; then
	former=$(signer "$work/trusted.crt")
elif ! $asked && [ -e ca.crt ]; then
	former=$(signer ca.crt)
fi

if ! $new; then
	here=
	if [ -e ca.key ] && [ -e ca.crt ]; then
		here=$(cat ca.crt)
	elif ! $asked; then
		cat "$work/log" >&2
		fail "the cluster cannot be asked which authority it trusts. If metal3-apiserver is installed there," \
			"copy ca.key and ca.crt from the folder of that installation to $PWD. If not, use --new-authority"
	fi
	case $here in
	*"$former"*) ;;
	*) fail "the cluster trusts another authority. With one of this folder, nothing of metal3.io would be served for a while." \
		"Copy ca.key and ca.crt from the folder of that installation to $PWD. If ca.key is lost, or cert-manager" \
		"made the certificate until now, use --new-authority" ;;
	esac
fi

if $new || [ ! -e ca.key ] || [ ! -e ca.crt ]; then
	key "$work/ca.key"
	openssl req -x509 -new -key "$work/ca.key" -sha256 -days 3650 -subj /CN=metal3-apiserver-ca \
		-config "$work/openssl.cnf" -extensions authority -out "$work/ca.crt"
	if [ -n "$former" ]; then
		echo "$former" >>"$work/ca.crt"
		echo "the former authority is trusted, too: it is the second one in ca.crt"
	fi
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
