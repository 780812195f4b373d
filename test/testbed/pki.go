// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"time"
)

// authority is a certificate authority.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// keyPair is a certificate and its private key, PEM encoded.
type keyPair struct {
	cert, key []byte
}

func newAuthority(name string) (*authority, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	a := &authority{}
	pair, key, err := a.sign(template)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(pair.cert)
	a.cert, err = x509.ParseCertificate(block.Bytes)
	a.key, a.pem = key, pair.cert
	return a, err
}

// client issues a certificate with which Kubernetes authenticates user in groups.
func (a *authority) client(user string, groups ...string) (keyPair, error) {
	return a.issue(pkix.Name{CommonName: user, Organization: groups}, nil, x509.ExtKeyUsageClientAuth)
}

// server issues a serving certificate for names, of which some may be addresses, localhost and 127.0.0.1.
func (a *authority) server(names ...string) (keyPair, error) {
	return a.issue(pkix.Name{CommonName: names[0]}, append(names, "localhost"), x509.ExtKeyUsageServerAuth)
}

// peer issues a certificate for a member of etcd, which is a server and a client of the other ones.
func (a *authority) peer(name string) (keyPair, error) {
	return a.issue(pkix.Name{CommonName: name}, nil, x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth)
}

func (a *authority) issue(subject pkix.Name, names []string, usages ...x509.ExtKeyUsage) (keyPair, error) {
	template := &x509.Certificate{Subject: subject, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: usages}
	for _, name := range names {
		if address := net.ParseIP(name); address != nil {
			template.IPAddresses = append(template.IPAddresses, address)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	if usages[0] == x509.ExtKeyUsageServerAuth {
		template.IPAddresses = append(template.IPAddresses, net.IPv4(127, 0, 0, 1))
	}
	pair, _, err := a.sign(template)
	return pair, err
}

// sign creates a key and a certificate for it, from template. If the authority has no certificate
// yet, the new certificate is self-signed.
func (a *authority) sign(template *x509.Certificate) (keyPair, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return keyPair{}, nil, err
	}
	template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return keyPair{}, nil, err
	}
	template.NotBefore = time.Now().Add(-time.Hour)
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(365 * 24 * time.Hour)
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return keyPair{}, nil, err
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return keyPair{}, nil, err
	}
	return keyPair{
		cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		key:  pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}),
	}, key, nil
}

// write stores the pair in the files base.crt and base.key.
func (p keyPair) write(base string) error {
	if err := os.WriteFile(base+".crt", p.cert, 0o644); err != nil {
		return err
	}
	return os.WriteFile(base+".key", p.key, 0o600)
}
