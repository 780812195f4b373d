package testbed

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"time"
)

// Authority signs client certificates.
type Authority struct{ authority *authority }

// NewAuthority makes an authority that nobody trusts yet.
func NewAuthority(name string) (Authority, error) {
	a, err := newAuthority(name)
	return Authority{a}, err
}

// ClientAuthority is the one that says who the users of the cluster are.
func (k *Kube) ClientAuthority() Authority { return Authority{k.ca} }

// FrontProxyAuthority is the one that says who kube-apiserver is, which may tell
// an aggregated server for whom it asks.
func (k *Kube) FrontProxyAuthority() Authority { return Authority{k.frontProxyCA} }

// PEM is the authority's certificate.
func (a Authority) PEM() []byte { return a.authority.pem }

// Issue makes a client certificate for user in groups that ends at a time.
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
