// SPDX-License-Identifier: Apache-2.0

package security

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// hosts is what nobody without rights may list.
const hosts = groupVersion + "/baremetalhosts"

// asMaster are the headers by which kube-apiserver says for whom it asks.
func asMaster(c *client) *client {
	return c.with("X-Remote-User", "admin").with("X-Remote-Group", "system:masters").
		with("X-Remote-Uid", "0").with("X-Remote-Extra-Scopes", "all")
}

// TestIdentity: only the front proxy's own certificate lets somebody speak for
// others, and only the cluster's authority says who somebody is.
func TestIdentity(t *testing.T) {
	attack(t, "any certificate or none", "speak for another user by X-Remote-User or a certificate's name")
	t.Parallel()
	ctx, _ := s.Begin(t)
	stranger, err := testbed.NewAuthority("testbed-ca") // the name is the same, the key is not
	if err != nil {
		t.Fatal(err)
	}
	expired := func(authority testbed.Authority, user string, groups ...string) tls.Certificate {
		certificate, err := authority.Issue(user, time.Now().Add(-time.Minute), groups...)
		if err != nil {
			t.Fatal(err)
		}
		return certificate
	}
	users, proxies := s.Kube.ClientAuthority(), s.Kube.FrontProxyAuthority()
	const anonymous, mallory = `User "system:anonymous" cannot list`, `User "mallory" cannot list`
	proxy := direct(t, issue(t, proxies.Issue, "front-proxy-client"))
	for name, tt := range map[string]struct {
		client *client
		code   int
		says   string // is in the answer
	}{
		// What is right passes: the other cases fail for the reason that they have.
		"administrator":               {direct(t, user(t, "root", "system:masters")), 200, ""},
		"front proxy for a master":    {asMaster(proxy), 200, ""},
		"front proxy for a nobody":    {proxy.with("X-Remote-User", "nobody").with("X-Remote-Group", "system:authenticated"), 403, `User "nobody" cannot list`},
		"front proxy for nobody":      {proxy, 401, "Unauthorized"},
		"front proxy, group but user": {proxy.with("X-Remote-Group", "system:masters"), 401, "Unauthorized"},

		"anonymous":                                {direct(t), 403, anonymous},
		"forged headers alone":                     {asMaster(direct(t)), 403, anonymous},
		"forged headers of an ordinary user":       {asMaster(direct(t, user(t, "mallory"))), 403, mallory},
		"forged headers, named as the front proxy": {asMaster(direct(t, user(t, "front-proxy-client"))), 403, `User "front-proxy-client" cannot list`},
		"forged headers, an authority of his own":  {asMaster(direct(t, issue(t, stranger.Issue, "front-proxy-client"))), 401, "Unauthorized"},
		"master by an authority of his own":        {direct(t, issue(t, stranger.Issue, "root", "system:masters")), 401, "Unauthorized"},
		"front proxy's authority, another name":    {asMaster(direct(t, issue(t, proxies.Issue, "mallory"))), 401, "Unauthorized"},
		"front proxy's authority, master by name":  {direct(t, issue(t, proxies.Issue, "root", "system:masters")), 401, "Unauthorized"},
		"front proxy, expired":                     {asMaster(direct(t, expired(proxies, "front-proxy-client"))), 401, "Unauthorized"},
		"administrator, expired":                   {direct(t, expired(users, "root", "system:masters")), 401, "Unauthorized"},
		"no token at all":                          {direct(t).with("Authorization", "Bearer not-a-token"), 401, "Unauthorized"},
		"a password":                               {direct(t).with("Authorization", "Basic cm9vdDpyb290"), 403, anonymous},

		// kube-apiserver takes these headers away before it adds its own.
		"forged headers through kube-apiserver":           {asMaster(throughKube(t, user(t, "mallory"))), 403, mallory},
		"forged headers of nobody through kube-apiserver": {asMaster(throughKube(t)), 403, anonymous},

		// As in kube-apiserver, to impersonate takes a right of its own.
		"impersonation":                        {direct(t, user(t, "mallory")).with("Impersonate-User", "root").with("Impersonate-Group", "system:masters"), 403, `User "mallory" cannot impersonate`},
		"impersonation of a group":             {direct(t, user(t, "mallory")).with("Impersonate-User", "mallory").with("Impersonate-Group", "system:masters"), 403, `User "mallory" cannot impersonate`},
		"impersonation through the proxy":      {proxy.with("X-Remote-User", "mallory").with("Impersonate-User", "root"), 403, `User "mallory" cannot impersonate`},
		"impersonation through kube-apiserver": {throughKube(t, user(t, "mallory")).with("Impersonate-User", "root"), 403, `User "mallory" cannot impersonate`},
	} {
		t.Run(name, func(t *testing.T) {
			got := tt.client.get(t, ctx, hosts)
			if got.code != tt.code || !strings.Contains(unquoted(got.body), tt.says) {
				t.Errorf("%d %.300s\nwant %d with %s", got.code, got.body, tt.code, tt.says)
			}
			if got.code == 200 {
				return
			}
			if _, err := got.status(); err != nil {
				t.Error(err)
			}
		})
	}
}

// unquoted is JSON without the escapes of quotation marks.
func unquoted(text string) string { return strings.ReplaceAll(text, `\"`, `"`) }

// TestToken: the cluster is asked what a token is worth, and one that is for
// somebody else is worth nothing here.
func TestToken(t *testing.T) {
	attack(t, "tokens of other audiences, expired or forged", "read hosts")
	t.Parallel()
	ctx, ns := s.Begin(t)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "reader"}}
	if _, err := s.Core.CoreV1().ServiceAccounts(ns).Create(ctx, account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	token := func(audiences ...string) string {
		request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}}
		made, err := s.Core.CoreV1().ServiceAccounts(ns).CreateToken(ctx, "reader", request, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return "Bearer " + made.Status.Token
	}
	if got := direct(t).with("Authorization", token("vault")).get(t, ctx, hosts); got.code != 401 {
		t.Errorf("a token for another audience: %d %s", got.code, got.body)
	}
	got := direct(t).with("Authorization", token()).get(t, ctx, hosts)
	if want := fmt.Sprintf(`User "system:serviceaccount:%s:reader" cannot list`, ns); got.code != 403 || !strings.Contains(unquoted(got.body), want) {
		t.Errorf("%d %s, want 403 with %s", got.code, got.body, want)
	}
}

// TestImpersonationByRight: who has the right gets what the other one may, no more.
func TestImpersonationByRight(t *testing.T) {
	attack(t, "impersonate on one user", "get more than that user has")
	t.Parallel()
	ctx, ns := s.Begin(t)
	const support = "support"
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"users"}, Verbs: []string{"impersonate"}, ResourceNames: []string{"nobody"}}},
	}
	if _, err := s.Core.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: ns}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: ns},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: support}},
	}
	if _, err := s.Core.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, ctx, func() string {
		got := direct(t, user(t, support)).with("Impersonate-User", "nobody").get(t, ctx, hosts)
		if got.code != 403 || !strings.Contains(unquoted(got.body), `User "nobody" cannot list`) {
			return fmt.Sprintf("%d %s", got.code, got.body)
		}
		return ""
	})
	if got := direct(t, user(t, support)).with("Impersonate-User", "root").get(t, ctx, hosts); !strings.Contains(got.body, "cannot impersonate") {
		t.Errorf("another user than the right is for: %d %s", got.code, got.body)
	}
}

// TestTransport: nothing but TLS 1.2 and later.
func TestTransport(t *testing.T) {
	attack(t, "none", "connect without TLS or with an old version of it")
	t.Parallel()
	ctx, _ := s.Begin(t)
	address := strings.TrimPrefix(s.Server.Direct.Config.Host, "https://")
	dial := func(version uint16) error {
		dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: version}}
		conn, err := dialer.DialContext(ctx, "tcp", address)
		if err == nil {
			err = conn.Close()
		}
		return err
	}
	for version, accepted := range map[uint16]bool{tls.VersionTLS10: false, tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		if err := dial(version); (err == nil) != accepted {
			t.Errorf("%s: %v", tls.VersionName(version), err)
		}
	}
	for _, suite := range tls.InsecureCipherSuites() {
		dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{suite.ID}}}
		if conn, err := dialer.DialContext(ctx, "tcp", address); err == nil {
			_ = conn.Close()
			t.Errorf("the cipher suite %s is accepted", suite.Name)
		}
	}
	plain := &client{server: "http://" + address, http: &http.Client{}, header: http.Header{}}
	if got, err := plain.do(ctx, http.MethodGet, hosts, "", ""); err == nil && (got.code != 400 || strings.Contains(got.body, "items")) {
		t.Errorf("without TLS: %d %s", got.code, got.body)
	}
	// It listens where it is told to, and nowhere else.
	if _, port, err := net.SplitHostPort(address); err != nil || port == "443" {
		t.Errorf("listens on %s: %v", address, err)
	}
}

const trustMap = "extension-apiserver-authentication"

// TestFrontProxyAuthorityRotates: another authority of the front proxy counts as
// soon as the cluster says so, without a restart.
func TestFrontProxyAuthorityRotates(t *testing.T) {
	attack(t, "a certificate of the replaced front proxy authority", "speak for another user")
	t.Parallel()
	ctx, _ := s.Begin(t)
	next, err := testbed.NewAuthority("next-front-proxy-ca")
	if err != nil {
		t.Fatal(err)
	}
	renewed := asMaster(direct(t, issue(t, next.Issue, "front-proxy-client")))
	if got := renewed.get(t, ctx, hosts); got.code != 401 {
		t.Fatalf("an authority that the cluster does not know: %d %s", got.code, got.body)
	}
	before := editTrust(t, ctx, func(bundle string) string { return bundle + string(next.PEM()) })
	eventually(t, ctx, func() string {
		if got := renewed.get(t, ctx, hosts); got.code != 200 {
			return fmt.Sprintf("the new authority: %d %s", got.code, got.body)
		}
		return ""
	})
	if got := asMaster(direct(t, issue(t, s.Kube.FrontProxyAuthority().Issue, "front-proxy-client"))).get(t, ctx, hosts); got.code != 200 {
		t.Errorf("the old authority beside the new one: %d %s", got.code, got.body)
	}
	editTrust(t, ctx, func(string) string { return before })
	eventually(t, ctx, func() string {
		if got := renewed.get(t, ctx, hosts); got.code != 401 {
			return fmt.Sprintf("an authority that the cluster no longer knows: %d %s", got.code, got.body)
		}
		return ""
	})
}

// editTrust changes the authorities of the front proxy and returns what they were.
func editTrust(t *testing.T, ctx context.Context, change func(string) string) (before string) {
	t.Helper()
	const key = "requestheader-client-ca-file"
	maps := s.Core.CoreV1().ConfigMaps(metav1.NamespaceSystem)
	eventually(t, ctx, func() string {
		trust, err := maps.Get(ctx, trustMap, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		before = trust.Data[key]
		trust.Data[key] = change(before)
		if slices.Contains([]string{"", before}, trust.Data[key]) {
			return "nothing to change in " + trustMap
		}
		if _, err := maps.Update(ctx, trust, metav1.UpdateOptions{}); err != nil {
			return err.Error() // kube-apiserver keeps it too
		}
		return ""
	})
	return before
}
