// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"errors"
	"strings"
	"testing"

	api "github.com/metal3-io/metal3-apiserver/pkg/apis/ironic/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/client"
)

// TestUnsendableUsername: Ironic answers a user name that is not text as if the request were wrong, and not its
// credentials. A password has any bytes.
func TestUnsendableUsername(t *testing.T) {
	for username, want := range map[string]string{
		"metal3": "", "\xff\xfem\x00": "the username in the Secret is text in UTF-16", "\ufeffmetal3": "the username in the Secret begins with a byte order mark",
		"metal\xe9": "the username in the Secret is not text in UTF-8",
	} {
		to := connection{endpoint: "https://ironic.example", credentials: map[string][]byte{"username": []byte(username + "\n"), "password": []byte("caf\xe9")}}
		_, err := to.dial("b", client.Config{})
		problem := new(Problem)
		if errors.As(err, &problem); (err == nil) != (want == "") || want != "" && (problem.Reason != api.SecretInvalidReason || !strings.HasPrefix(problem.Message, want)) {
			t.Errorf("%q: %v, want %q", username, err, want)
		}
	}
}
