// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// posting is an error as net/http returns it.
func posting(err error) error { return &url.Error{Op: "Post", URL: "https://192.0.2.1", Err: err} }

func TestMayBeDone(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{posting(context.DeadlineExceeded), true},
		{posting(os.ErrDeadlineExceeded), true}, // --request-timeout
		{posting(io.EOF), true},
		{posting(&net.OpError{Op: "read", Err: syscall.ECONNRESET}), true},
		{fmt.Errorf("client rate limiter Wait returned an error: %w", context.DeadlineExceeded), true}, // which nobody can tell from the others
		{posting(&net.OpError{Op: "dial", Err: context.DeadlineExceeded}), false},
		{posting(&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}), false},
		{posting(&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}), false},
		{posting(errors.New("http2: client connection lost")), true},
		{posting(context.Canceled), true}, // Ctrl-C
		{errNotSent, false},
		{fmt.Errorf("unexpected error when reading response body. Please retry. Original error: %w", io.ErrUnexpectedEOF), true},
		{posting(&net.OpError{Op: "proxyconnect", Err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}), false},
		{posting(errors.New("getting credentials: exec: executable aws failed with exit code 255")), false},
		{posting(http.ErrSchemeMismatch), false},
		{posting(&net.OpError{Op: "socks connect", Err: syscall.ECONNREFUSED}), false},
		{posting(&net.OpError{Op: "remote error", Err: errors.New("tls: certificate required")}), false},
		{posting(errors.New(handshakeTimeout)), false},
		{apierrors.NewGenericServerResponse(503, "post", metal3.Resource("baremetalhosts"), "w", "error trying to reach service: tls: failed to verify certificate: x509: certificate has expired", 0, true), false},
		{apierrors.NewGenericServerResponse(503, "post", metal3.Resource("baremetalhosts"), "w", "error trying to reach service: "+handshakeTimeout, 0, true), false},
		{apierrors.NewGenericServerResponse(503, "post", metal3.Resource("baremetalhosts"), "w", "service unavailable", 0, true), false},
		{apierrors.NewGenericServerResponse(503, "post", metal3.Resource("baremetalhosts"), "w", "error trying to reach service: dial tcp 10.96.0.7:443: connect: connection refused", 0, true), false},
		{apierrors.NewGenericServerResponse(503, "post", metal3.Resource("baremetalhosts"), "w", "error trying to reach service: EOF", 0, true), true}, // kube-apiserver's
		{apierrors.NewGenericServerResponse(404, "post", metal3.Resource("baremetalhosts"), "w", "404 page not found", 0, true), false},
		{apierrors.NewConflict(metal3.Resource("baremetalhosts"), "w", errors.New("it is to be off")), false},
		{apierrors.NewTimeoutError("look before you try again", 0), false},
	} {
		if got := mayBeDone(c.err); got != c.want {
			t.Errorf("%v: %t", c.err, got)
		}
	}
}

// TestUnansweredAction: who has asked for a reboot and got no answer must not ask for another one unseen.
func TestUnansweredAction(t *testing.T) {
	const warning = "it may have been carried out: look at the host before you do it again"
	for _, dryRun := range []string{"none", "server"} {
		c := newCluster(host("w-0", metal3.StateProvisioned))
		c.metal3.PrependReactor("create", "baremetalhosts", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, posting(context.DeadlineExceeded)
		})
		if code := c.run(t, "power", "reboot", "w-0", "--dry-run="+dryRun); code != exitError {
			t.Errorf("exit code %d", code)
		}
		if got := strings.Contains(c.errOut, warning); got != (dryRun == "none") {
			t.Errorf("dry run %s: %s", dryRun, c.errOut)
		}
	}
}
