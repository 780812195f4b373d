// SPDX-License-Identifier: Apache-2.0

package security

import (
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"k8s.io/utils/ptr"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// requestLog is a server that notes which requests it gets.
type requestLog struct {
	*httptest.Server
	mu       sync.Mutex
	requests []string
}

func startRequestLog(t *testing.T, handler http.HandlerFunc) *requestLog {
	t.Helper()
	log := &requestLog{}
	log.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		log.mu.Lock()
		log.requests = append(log.requests, r.Method+" "+r.URL.Path+" "+r.UserAgent())
		log.mu.Unlock()
		handler(w, r)
	}))
	t.Cleanup(log.Close)
	return log
}

func (l *requestLog) got() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.requests)
}

// needsRealIronic skips a test of what Ironic does by itself.
func needsRealIronic(t *testing.T) {
	t.Helper()
	if s.machines == nil {
		t.Skip("the simulated Ironic makes no requests: set IRONIC=trixie")
	}
}

// TestRedirectOfImage: Ironic 29.0 asks an image server with HEAD first, and refuses a redirect then. A
// server that redirects only the GET that follows has the conductor fetch from another one, and hand
// what it finds there to the BMC. This server has looked at the first URL only and cannot prevent
// that, as docs/security.md says.
func TestRedirectOfImage(t *testing.T) {
	attack(t, "write hosts; has an image server", "have the conductor fetch from elsewhere by a redirect")
	t.Parallel()
	needsRealIronic(t)
	if release := os.Getenv("IRONIC"); release != "trixie" {
		t.Skipf("this is about Ironic 29.0, not that of %s", release)
	}
	for name, test := range map[string]struct {
		redirectsHEAD, followed bool
	}{
		"of each request": {redirectsHEAD: true},
		"of GET alone":    {followed: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, ns := s.Begin(t)
			content := []byte("the content of an internal server")
			inner := startRequestLog(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(content) })
			outer := startRequestLog(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodHead && !test.redirectsHEAD {
					w.Header().Set("Content-Length", strconv.Itoa(len(content)))
					return
				}
				http.Redirect(w, r, inner.URL+"/internal.iso", http.StatusFound)
			})
			m := newMachine(t, "any")
			s.CreateSecret(t, ctx, ns, "bmc", map[string]string{"username": "admin", "password": "any"})
			createHost(t, ctx, ns, "x", m.redfish.VirtualMediaAddress(), "bmc", m.boots, func(spec *metal3.BareMetalHostSpec) {
				spec.InspectionMode = metal3.InspectionModeDisabled
				spec.Image = &metal3.Image{URL: outer.URL + "/image.iso", DiskFormat: ptr.To(metal3.LiveISO)}
			})
			host := waitHost(t, ctx, ns, "x", "provisioned or refused", func(h *metal3.BareMetalHost) bool {
				return h.Status.Provisioning.State == metal3.StateProvisioned || h.Status.ErrorType == metal3.ProvisioningError
			})
			fetched := slices.ContainsFunc(inner.got(), func(r string) bool { return strings.HasPrefix(r, "GET /internal.iso") })
			if fetched != test.followed {
				t.Errorf("the redirect was followed: %t, want %t; the image server was asked %q; %s", fetched, test.followed, outer.got(), host.Status.ErrorMessage)
			}
		})
	}
}

// TestRedirectOfBMC: Ironic follows the redirect of a BMC, too.
func TestRedirectOfBMC(t *testing.T) {
	attack(t, "write hosts; has a BMC", "have Ironic fetch from elsewhere by a redirect")
	t.Parallel()
	needsRealIronic(t)
	ctx, ns := s.Begin(t)
	inner := startRequestLog(t, func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "the answer of an internal server", http.StatusNotFound)
	})
	outer := startRequestLog(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, inner.URL+r.URL.Path, http.StatusPermanentRedirect)
	})
	s.CreateSecret(t, ctx, ns, "bmc", map[string]string{"username": "admin", "password": "any"})
	createHost(t, ctx, ns, "x", "redfish+"+outer.URL+"/redfish/v1/Systems/1", "bmc")
	host := waitHost(t, ctx, ns, "x", "refused", func(h *metal3.BareMetalHost) bool { return h.Status.ErrorType == metal3.RegistrationError })
	if len(inner.got()) == 0 {
		t.Errorf("the BMC was asked %q, and the server that it redirects to nothing", outer.got())
	}
	if strings.Contains(host.Status.ErrorMessage, "internal server") {
		t.Errorf("the user is shown what an internal server answers: %s", host.Status.ErrorMessage)
	}
}
