// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/pem"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// publicAuthorities returns the certificate authorities that Mozilla trusts, as of the module in go.mod: what the machine trusts on
// which a release is made, perhaps an authority of its owner's, is nobody else's.
func publicAuthorities() []byte {
	var all bytes.Buffer
	for root := range bundle.Roots() {
		// Programs cannot read from a file from when on one is not trusted any more (Constraint); Debian's file has these, too.
		_ = pem.Encode(&all, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a buffer takes everything
	}
	return all.Bytes()
}
