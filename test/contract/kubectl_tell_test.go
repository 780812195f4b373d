// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// What kubectl tells about a kind and a host beside `get`.

func TestKubectlExplain(t *testing.T) {
	k := newShell(t)
	for path, wants := range map[string][]string{
		"bmh":                             {"GROUP:      metal3.io\nKIND:       BareMetalHost\nVERSION:    v1alpha1\n", "BareMetalHost is a physical server", "subresources: power, inspect, retry, rebuild,", "\n  spec\t<BareMetalHostSpec>\n"},
		"bmh.spec.bmc":                    {"FIELD: bmc <BMCDetails>", "address\t<string> -required-", "credentialsName\t<string> -required-"},
		"bmh.spec.automatedCleaningMode":  {"ENUM:\n    disabled\n    metadata\n", "DESCRIPTION:\n    What is done to the disks"},
		"bmh.status.conditions":           {"FIELD: conditions <[]Condition>", "lastTransitionTime\t<string> -required-"},
		"bmh.status.ironic":               {"reservation\t<string>"},
		"bmh.status.hardware.cpu":         {"clockMegahertz\t<number>"},
		"hardwaredata.spec.hardware.nics": {"FIELD: nics <[]NIC>", "DESCRIPTION:\n"},
	} {
		out := k.ok("", "explain", path)
		for _, want := range wants {
			if !strings.Contains(out, want) {
				t.Errorf("explain %s lacks %q:\n%s", path, want, out)
			}
		}
	}
	for _, kind := range []string{"bmh", "hardwaredata"} {
		out := k.ok("", "explain", kind, "--recursive")
		if strings.Contains(out, "<empty>") || strings.Contains(out, "__internal") || len(strings.Split(out, "\n")) < 30 {
			t.Errorf("explain %s --recursive prints\n%s", kind, out)
		}
	}
	k.refused("", []string{"explain", "bmh.spec.nope"}, `field "nope" does not exist`)
}

func TestKubectlDescribeAndEvents(t *testing.T) {
	k := newShell(t)
	// No Secret of that name: the controller says so in the status and in an event.
	k.ok(hostYAML("h", "online: true, bmc: {address: 'ipmi://192.0.2.1', credentialsName: missing}"), "create", "-f", "-")
	k.ok("", "wait", "bmh/h", "--for=jsonpath={.status.operationalStatus}=error", "--timeout=5m")
	testbed.Eventually(t, k.ctx, func() string {
		if out, _, _ := k.run("", "events", "--for=bmh/h"); !regexp.MustCompile(`Warning +\w+ +BareMetalHost/h +.*missing`).MatchString(out) {
			return "events print " + out
		}
		return ""
	})
	out := k.ok("", "describe", "bmh", "h")
	for _, want := range []string{
		`(?m)^Name: +h$`, `(?m)^Namespace: +` + k.ns + `$`, `(?m)^Kind: +BareMetalHost$`, `(?m)^  Bmc:\n    Address: +ipmi://192.0.2.1\n    Credentials Name: +missing$`,
		`(?m)^  Operational Status: +error$`, `(?m)^Events:\n  Type +Reason +Age +From +Message\n`, `(?m)^  Warning +\w+ .*Secret "missing"`,
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("describe lacks %s:\n%s", want, out)
		}
	}
}

func TestKubectlKnowsTheKinds(t *testing.T) {
	k := newShell(t)
	out := k.ok("", "api-resources", "--api-group=metal3.io", "-o", "wide", "--no-headers")
	if !regexp.MustCompile(`(?m)^baremetalhosts +bmh,bmhost +metal3.io/v1alpha1 +true +BareMetalHost +create,delete,deletecollection,get,list,patch,update,watch *$`).MatchString(out) {
		t.Errorf("api-resources prints\n%s", out)
	}
	if out := k.ok("", "api-versions"); !strings.Contains(out, "metal3.io/v1alpha1") {
		t.Errorf("api-versions prints %s", out)
	}
	var list metav1.APIResourceList
	if err := json.Unmarshal([]byte(k.ok("", "get", "--raw", "/apis/metal3.io/v1alpha1")), &list); err != nil {
		t.Fatal(err)
	}
	// By whatever name a user calls them.
	var names []string
	for _, r := range list.APIResources {
		if !strings.Contains(r.Name, "/") {
			names = append(names, append([]string{r.Name, r.SingularName, r.Kind, r.Name + ".metal3.io"}, r.ShortNames...)...)
		}
	}
	if _, stderr, code := k.run("", "get", strings.Join(names, ",")); code != 0 || !strings.Contains(stderr, "No resources found") {
		t.Errorf("get %v: exit code %d: %s", names, code, stderr)
	}
}

func TestKubectlAuthCanI(t *testing.T) {
	k := newShell(t)
	k.ok("", "create", "role", "operator", "--verb=create", "--resource=baremetalhosts.metal3.io/power")
	k.ok("", "create", "role", "reader", "--verb=get,list", "--resource=baremetalhosts.metal3.io")
	for _, role := range []string{"operator", "reader"} {
		k.ok("", "create", "rolebinding", role, "--role="+role, "--user=contract-"+role)
	}
	for _, c := range []struct{ user, verb, resource, want string }{
		{"contract-operator", "create", "bmh/power", "yes"},
		{"contract-operator", "get", "bmh", "no"},
		{"contract-reader", "list", "bmh", "yes"},
		{"contract-reader", "delete", "bmh", "no"},
	} {
		// kubectl takes bmh/power for a host named power, unless it is told.
		resource, args := c.resource, []string{"--as=" + c.user}
		if kind, subresource, ok := strings.Cut(resource, "/"); ok {
			resource, args = kind, append(args, "--subresource="+subresource)
		}
		if out, stderr, _ := k.run("", append([]string{"auth", "can-i", c.verb, resource}, args...)...); strings.TrimSpace(out) != c.want {
			t.Errorf("can-i %s %s as %s: %q %s", c.verb, c.resource, c.user, out, stderr)
		}
	}
	k.refused("", []string{"delete", "bmh", "none", "--as=contract-reader"}, "(Forbidden)",
		`baremetalhosts.metal3.io "none" is forbidden: User "contract-reader" cannot delete resource "baremetalhosts" in API group "metal3.io" in the namespace "`+k.ns+`"`)
}
