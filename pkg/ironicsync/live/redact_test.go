// SPDX-License-Identifier: Apache-2.0

package live_test

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clientgotesting "k8s.io/client-go/testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/redact"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/secrets"
	"github.com/metal3-io/metal3-apiserver/test/enginetest"
)

// TestNoPasswordInWords: a driver may put the BMC's password anywhere into a
// sentence. It is struck out before anybody sees it, at the price of one look at the
// Secret for new words.
func TestNoPasswordInWords(t *testing.T) {
	const password = "tr0ub4dor&3"
	for _, read := range reads {
		t.Run(read.name, func(t *testing.T) {
			client := fake.NewClientset(&corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: enginetest.Namespace, Name: "bmc"},
				Data:       map[string][]byte{"username": []byte("root"), "password": []byte(password + "\n")},
			})
			var refused error
			client.PrependReactor("get", "secrets", func(clientgotesting.Action) (bool, runtime.Object, error) { return refused != nil, nil, refused })
			b := newBench(t, 1, enginetest.ReaderWait, func(deps *live.Deps) { deps.Secrets = secrets.NewReader(client.CoreV1()) })
			defer b.Wait()
			defer b.stop()
			host := b.hosts.Host(t, enginetest.HostName(0))
			host.Spec.BMC.CredentialsName = "bmc"
			b.hosts.Add(host)
			step := func(says, shown string, looks int) {
				t.Helper()
				client.ClearActions()
				b.nodes.Say(enginetest.NodeID(0), says)
				if err := read.do(t.Context(), b); err != nil {
					t.Fatal(err)
				}
				if got := b.shown(t, 0); got != shown {
					t.Errorf("the host shows %q, want %q", got, shown)
				}
				if got := len(client.Actions()); got != looks {
					t.Errorf("%d requests for Secrets, want %d", got, looks)
				}
			}
			again := 1
			if read.name == "bulk" {
				again = 0 // what says the same as before is not looked at
			}
			step("login of root with "+password+" failed", "login of root with ****** failed", 1)
			step("login of root with "+password+" failed", "login of root with ****** failed", again)
			step("no answer", "no answer", 1)
			step("no answer", "no answer", 0) // everybody has seen that
			step("", "", 0)
			// What is too long is cut after the password has been removed, and not looked at again.
			begin := strings.Repeat("x", 4<<10-10)
			step(begin+password+" and more", begin+"****** and...", 1)
			step(begin+"nobody's password", begin+"nobody's p...", 1)
			step(begin+"nobody's password", begin+"nobody's p...", 0)
			step("", "", 0)

			refused = errors.New("etcdserver: request timed out")
			b.nodes.Say(enginetest.NodeID(0), "once more: "+password)
			if err := read.do(t.Context(), b); err != nil {
				t.Errorf("with a Secret that cannot be read: %v", err)
			}
			if got := b.shown(t, 0); !strings.HasPrefix(got, "withheld") || !strings.Contains(got, `Secret "bmc"`) || strings.Contains(got, password) {
				t.Errorf("the host shows %q then", got)
			}
			refused = nil
			step("once more: "+password, "once more: ******", 1)
			refused = apierrors.NewNotFound(corev1.Resource("secrets"), "bmc")
			step("nobody's password", "nobody's password", 1)
		})
	}
}

// A password that no BMC takes is not looked for, which would take long each time, and nothing is shown that may quote a part of it.
func TestLongPasswords(t *testing.T) {
	says := "Failed to verify the credentials of the BMC: connection refused"
	for length, want := range map[int]string{
		secrets.MaxPassword: says, secrets.MaxPassword + 1: `the password in Secret "bmc" has more than 256 bytes, which no BMC takes`,
	} {
		password := says + strings.Repeat("'", length-len(says))
		client := fake.NewClientset(&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: enginetest.Namespace, Name: "bmc"},
			Data:       map[string][]byte{"username": []byte("root"), "password": []byte(password)},
		})
		refresher := live.NewRefresher(t.Context(), live.Deps{Secrets: secrets.NewReader(client.CoreV1())})
		host := &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: enginetest.Namespace, Name: "worker-0"}}
		host.Spec.BMC.CredentialsName = "bmc"
		err := refresher.RedactPassword(t.Context(), host, &ironic.Node{LastError: says})
		got := redact.Words(refresher.Guard(t.Context(), host), says)
		if length <= secrets.MaxPassword {
			if err != nil || got != "******" {
				t.Errorf("%d bytes: %q, %v", length, got, err)
			}
		} else if err == nil || err.Error() != want || got != redact.Withheld+want {
			t.Errorf("%d bytes: %q, %v; want %s", length, got, err, want)
		}
	}
}

// TestNoOracle: what users have written themselves is not compared with the password. They would see in what is struck out
// whether they have guessed it.
func TestNoOracle(t *testing.T) {
	const password = "tr0ub4dor&3"
	client := fake.NewClientset(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: enginetest.Namespace, Name: "bmc"},
		Data:       map[string][]byte{"username": []byte("root"), "password": []byte(password)},
	})
	refresher := live.NewRefresher(t.Context(), live.Deps{Secrets: secrets.NewReader(client.CoreV1())})
	host := &metal3.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: enginetest.Namespace, Name: "worker-0"}}
	host.Spec.BMC.CredentialsName = "bmc"
	host.Spec.Image = &metal3.Image{URL: "http://images.example/" + password}
	for _, guess := range []string{password, "tr0ub4dor&4"} {
		node := &ironic.Node{Maintenance: true, MaintenanceReason: ironic.RequestedMaintenance("alice", guess)}
		if err := refresher.RedactPassword(t.Context(), host, node); err != nil {
			t.Fatal(err)
		}
		if want := ironic.RequestedMaintenance("alice", guess); node.MaintenanceReason != want {
			t.Errorf("the reason is %q, want %q", node.MaintenanceReason, want)
		}
	}
	if n := len(client.Actions()); n > 0 {
		t.Errorf("Secrets were read %d times", n)
	}
	says := "HEAD of " + host.Spec.Image.URL + " failed; so did a login with " + password
	want := "HEAD of " + host.Spec.Image.URL + " failed; so did a login with ******"
	node := &ironic.Node{LastError: says}
	if err := refresher.RedactPassword(t.Context(), host, node); err != nil || node.LastError != want {
		t.Errorf("the last error is %q, want %q; %v", node.LastError, want, err)
	}
	if got := redact.Words(refresher.Guard(t.Context(), host), says); got != want {
		t.Errorf("an answer is %q, want %q", got, want)
	}
}
