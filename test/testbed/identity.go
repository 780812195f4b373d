// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"time"
)

// Authority signs client certificates.
type Authority struct{ authority *authority }

// NewAuthority creates an authority that nothing trusts yet.
func NewAuthority(name string) (Authority, error) {
	a, err := newAuthority(name)
	return Authority{a}, err
}

// ClientAuthority returns the authority that signs the certificates of the cluster's users.
func (k *Kube) ClientAuthority() Authority { return Authority{k.ca} }

// FrontProxyAuthority returns the authority that signs the certificate with which kube-apiserver
// connects to aggregated servers, and which allows it to name the user for whom it connects.
func (k *Kube) FrontProxyAuthority() Authority { return Authority{k.frontProxyCA} }

// PEM returns the authority's certificate.
func (a Authority) PEM() []byte { return a.authority.pem }

// Issue returns a client certificate for user in groups that is valid until the given time.
func (a Authority) Issue(user string, until time.Time, groups ...string) (tls.Certificate, error) {
	pair, _, err := a.authority.sign(&x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		NotAfter:    until,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(pair.cert, pair.key)
}
