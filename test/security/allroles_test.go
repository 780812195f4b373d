// SPDX-License-Identifier: Apache-2.0

package security

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// TestAllRolesInOneNamespace: somebody has all roles of the manifests in one namespace, except that of takeovers. Nothing of another
// namespace can be reached by that: neither by any verb on any resource there, nor by what objects of their own refer to. The reads of
// the other tenant stay live.
func TestAllRolesInOneNamespace(t *testing.T) {
	attack(t, "all roles in one namespace except takeover", "reach another's machine, make another's reads stale")
	simulator(t)
	ctx, ns := s.Begin(t)
	victim := makeNamespace(t, ctx, "victim-")
	s.CreateSecret(t, ctx, victim, "bmc", map[string]string{"username": "admin", "password": "theirs"})
	their := newMachine(t, "theirs")
	createHost(t, ctx, victim, "x", their.address, "bmc", their.deploys)
	provisioned := func(h *metal3.BareMetalHost) bool { return h.Status.Provisioning.State == metal3.StateProvisioned }
	before := waitHost(t, ctx, victim, "x", "provisioned", provisioned)
	node := before.Status.Provisioning.ID
	done := their.history(node)
	own := newMachine(t, "mine")
	s.CreateSecret(t, ctx, ns, "bmc", map[string]string{"username": "admin", "password": "mine"})
	createHost(t, ctx, ns, "x", own.address, "bmc", own.boots)
	// Switching it on would end the news of the node.
	mine := waitHost(t, ctx, ns, "x", "available and on", func(h *metal3.BareMetalHost) bool { return isAvailable(h) && h.Status.PoweredOn })

	attacker := userWithAllRoles(t, ctx, ns)
	grant(t, ctx, victim, person{name: "tenant", role: "metal3-baremetalhosts-reader"})
	tenant, c := throughKube(t, user(t, "tenant")), throughKube(t, attacker)
	reads := 0
	for range tryAll(t, ctx, attacker, victim) {
		readNews(t, ctx, tenant, victim, node)
		readNews(t, ctx, c, ns, mine.Status.Provisioning.ID)
		reads++
	}
	if reads < 20 {
		t.Errorf("the other tenant has read %d times only", reads)
	}
	tryReferences(t, ctx, c, ns, victim, before)
	after := waitHost(t, ctx, victim, "x", "as before", provisioned)
	if after.Status.Provisioning.ID != node || !after.Status.PoweredOn || after.Generation != before.Generation || after.Status.Ironic.Maintenance {
		t.Errorf("their host was touched: %+v", after.Status)
	}
	if now := their.history(node); now != done {
		t.Errorf("their node has the history %q, before it was %q", now, done)
	}
}

// userWithAllRoles returns the certificate of a user with all roles of the manifests in a namespace, except that of takeovers.
func userWithAllRoles(t *testing.T, ctx context.Context, ns string) tls.Certificate {
	t.Helper()
	roles, err := s.Core.RbacV1().ClusterRoles().List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var groups []string
	for _, role := range roles.Items {
		if strings.HasPrefix(role.Name, "metal3-") && !strings.HasPrefix(role.Name, testbed.ServiceName) && role.Name != "metal3-baremetalhosts-takeover" {
			groups = append(groups, ns+":"+role.Name)
			if _, err := s.Core.RbacV1().RoleBindings(ns).Create(ctx, &rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: role.Name},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
				Subjects:   []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: ns + ":" + role.Name}},
			}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(groups) < 8 {
		t.Fatalf("the manifests define only the roles %q", groups)
	}
	certificate := user(t, "holder-of-"+ns, groups...)
	c := throughKube(t, certificate)
	eventually(t, ctx, func() string {
		if got := c.get(t, ctx, groupVersion+"/namespaces/"+ns+"/baremetalhosts/x"); got.code != http.StatusOK {
			return fmt.Sprintf("%d %s", got.code, got.body)
		}
		return ""
	})
	return certificate
}

// tryAll tries each verb on each resource of the other namespace, and of all namespaces, on both ways to the server and five
// times. It sends something after each resource, unless that waits to be received already, and closes the channel at the end.
func tryAll(t *testing.T, ctx context.Context, certificate tls.Certificate, victim string) <-chan struct{} {
	t.Helper()
	resources := discover(t, ctx)
	tried := make(chan struct{}, 1)
	var requests atomic.Int64
	var workers sync.WaitGroup
	for _, way := range []func(*testing.T, ...tls.Certificate) *client{throughKube, direct} {
		c := way(t, certificate)
		workers.Go(func() {
			for range 5 {
				for _, r := range resources {
					for _, where := range []place{{"in another namespace", victim}, {"in all namespaces", ""}} {
						for may, of := range allowed(t, ctx, c, where, []metav1.APIResource{r}, &requests) {
							t.Errorf("%s, they may %s %v", where.what, may, of)
						}
					}
					select {
					case tried <- struct{}{}:
					default:
					}
				}
			}
		})
	}
	go func() {
		defer close(tried)
		workers.Wait()
		t.Logf("%d requests on %d resources were refused", requests.Load(), len(resources))
	}()
	return tried
}

// tryReferences creates objects that name what the other tenant has, and has all actions carried out on the hosts among them.
func tryReferences(t *testing.T, ctx context.Context, c *client, ns, victim string, their *metal3.BareMetalHost) {
	t.Helper()
	status, err := json.Marshal(their.Status)
	if err != nil {
		t.Fatal(err)
	}
	own := groupVersion + "/namespaces/" + ns + "/"
	post := func(resource, kind, name string, annotations, spec object) answer {
		t.Helper()
		return c.mustDo(t, ctx, http.MethodPost, own+resource, "application/json", body(t, object{
			"apiVersion": "metal3.io/v1alpha1", "kind": kind, "metadata": object{"name": name, "annotations": annotations}, "spec": spec,
		}))
	}
	elsewhere := object{"name": "bmc", "namespace": victim}
	for _, field := range []string{"userData", "networkData", "metaData"} {
		if got := post("baremetalhosts", "BareMetalHost", "x-"+strings.ToLower(field), nil, object{"online": true, field: elsewhere}); got.code != http.StatusUnprocessableEntity {
			t.Errorf("%s of another namespace: %d %s", field, got.code, got.body)
		}
	}
	bmc := object{"address": their.Spec.BMC.Address, "credentialsName": "bmc"}
	hosts := map[string]answer{
		"status": post("baremetalhosts", "BareMetalHost", "status", object{metal3.StatusAnnotation: string(status)}, object{"online": false}),
		"mac":    post("baremetalhosts", "BareMetalHost", "mac", nil, object{"online": false, "bootMACAddress": their.Spec.BootMACAddress}),
		"bmc":    post("baremetalhosts", "BareMetalHost", "bmc", nil, object{"online": false, "bmc": bmc, "bootMACAddress": their.Spec.BootMACAddress}),
		"external": post("baremetalhosts", "BareMetalHost", "external", object{metal3.StatusAnnotation: string(status)},
			object{"online": false, "externallyProvisioned": true, "bmc": bmc, "bootMACAddress": their.Spec.BootMACAddress}),
		"consumer": post("baremetalhosts", "BareMetalHost", "consumer", nil, object{"online": false, "consumerRef": object{
			"apiVersion": "metal3.io/v1alpha1", "kind": "HostClaim", "name": "x", "namespace": victim}}),
	}
	post("hostclaims", "HostClaim", "x", nil, object{"poweredOn": false, "hostSelector": object{"inNamespace": victim}})
	post("dataimages", "DataImage", "bmc", nil, object{"url": "http://192.0.2.1/x.iso"})
	for name, made := range hosts {
		if made.code != http.StatusCreated {
			t.Errorf("host %s: %d %s", name, made.code, made.body)
		}
		for _, action := range []string{
			`power {"action":"off","mode":"hard"}`, `power {"action":"reboot","mode":"hard"}`, `nmi {}`, `rebuild {}`, `inspect {}`,
			`maintenance {"action":"on","reason":"x"}`, `bootdevice {"device":"pxe"}`, `retry {}`, `transfer {"ironic":"nowhere"}`, `takeover {"nodeUUID":"` + their.Status.Provisioning.ID + `"}`,
			`clean {"steps":[{"interface":"deploy","step":"erase_devices"}]}`, `indicator {"state":"On"}`,
		} {
			subresource, spec, _ := strings.Cut(action, " ")
			got := c.mustDo(t, ctx, http.MethodPost, own+"baremetalhosts/"+name+"/"+subresource, "application/json", `{"spec":`+spec+`}`)
			if got.code < 400 && strings.Contains(got.body, their.Status.Provisioning.ID) || subresource == "takeover" && got.code != http.StatusForbidden {
				t.Errorf("%s of host %s: %d %s", action, name, got.code, got.body)
			}
		}
		for _, subresource := range []string{"power", "validate", "history", "bootdevice", "indicator", "maintenance", "inspect"} {
			if got := c.get(t, ctx, own+"baremetalhosts/"+name+"/"+subresource); got.code == http.StatusOK && name != "consumer" {
				t.Errorf("GET %s of host %s: %d %s", subresource, name, got.code, got.body)
			}
		}
	}
	if got := c.get(t, ctx, own+"hostclaims/x"); strings.Contains(got.body, `"bareMetalHost":{`) {
		t.Errorf("the claim has a host: %s", got.body)
	}
}
