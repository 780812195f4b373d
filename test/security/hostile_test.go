// SPDX-License-Identifier: Apache-2.0

package security

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxMemory is what the server may have used at most, after all this, in KiB: the
// manifests' limit is 2 GiB. The race detector takes several times as much.
const maxMemory = 1536 << 10

// TestHostileInput: whatever is sent is answered with a Status of the right code,
// and the server goes on.
func TestHostileInput(t *testing.T) {
	attack(t, "write all kinds", "crash the server or fill its memory by malformed input")
	t.Parallel()
	ctx, ns := s.Begin(t)
	createHost(t, ctx, ns, "x", "", "")
	pid := s.Server.PID()
	c := direct(t, user(t, "admin", "system:masters"))
	collection := groupVersion + "/namespaces/" + ns + "/baremetalhosts"
	const (
		asJSON, asYAML = "application/json", "application/yaml"
		merge, patch   = "application/merge-patch+json", "application/json-patch+json"
		apply          = "application/apply-patch+yaml"
	)
	host := func(metadata, spec string) string {
		return `{"apiVersion":"metal3.io/v1alpha1","kind":"BareMetalHost","metadata":{"name":"hostile"` + metadata + `},"spec":{"online":true` + spec + `}}`
	}
	long := strings.Repeat("x", 4<<20)
	var bomb strings.Builder
	bomb.WriteString("apiVersion: metal3.io/v1alpha1\nkind: BareMetalHost\nmetadata: {name: bomb}\na: &a [x,x,x,x,x,x,x,x,x]\n")
	for i := 'b'; i < 'm'; i++ {
		fmt.Fprintf(&bomb, "%c: &%c [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c,", i-1), 9), ","))
	}
	for name, tt := range map[string]struct {
		method, path, contentType, body string
		code                            int
	}{
		"4 MiB":                    {"POST", collection, asJSON, host("", `,"description":"`+long+`"`), 413},
		"4 MiB of YAML":            {"POST", collection, asYAML, "description: " + long, 413},
		"4 MiB of a patch":         {"PATCH", collection + "/x", merge, `{"spec":{"description":"` + long + `"}}`, 413},
		"4 MiB of apply":           {"PATCH", collection + "/x?fieldManager=m", apply, long, 413},
		"4 MiB of an action":       {"POST", collection + "/x/power", asJSON, `{"spec":{"action":"` + long + `"}}`, 413},
		"4 MiB of delete options":  {"DELETE", collection + "/x", asJSON, `{"x":"` + long + `"}`, 413},
		"annotations beyond 256 K": {"POST", collection, asJSON, host(`,"annotations":{"a":"`+long[:1<<20]+`"}`, ""), 422},
		"deep JSON":                {"POST", collection, asJSON, host("", `,"image":`+strings.Repeat(`{"a":`, 100000)+"1"+strings.Repeat("}", 100000)), 400},
		"deep lists":               {"POST", collection, asJSON, strings.Repeat("[", 1<<20), 400},
		"deep YAML":                {"POST", collection, asYAML, "a: " + strings.Repeat("[", 1<<18), 400},
		"YAML aliases":             {"POST", collection, asYAML, bomb.String(), 400},
		"deep merge patch":         {"PATCH", collection + "/x", merge, strings.Repeat(`{"a":`, 100000) + "1" + strings.Repeat("}", 100000), 400},
		"long JSON patch":          {"PATCH", collection + "/x", patch, "[" + strings.TrimSuffix(strings.Repeat(`{"op":"test","path":"/kind","value":"x"},`, 20000), ",") + "]", 413},
		"copies in a JSON patch":   {"PATCH", collection + "/x", patch, `[{"op":"add","path":"/metadata/annotations","value":{"a0":"` + long[:1000] + `"}},` + copies(5000) + `]`, 422},
		"not JSON":                 {"POST", collection, asJSON, "\x00\x01\x02", 400},
		"no body":                  {"POST", collection, asJSON, "", 400},
		"null":                     {"POST", collection, asJSON, "null", 422},
		"a list":                   {"POST", collection, asJSON, "[]", 400},
		"not UTF-8":                {"POST", collection, asJSON, host(`,"labels":{"a":"`+"\xff\xfe"+`"}`, ""), 422},
		"wrong types":              {"POST", collection, asJSON, host("", `,"bmc":[1,2,3]`), 400},
		"number too large":         {"POST", collection, asJSON, host("", `,"rootDeviceHints":{"minSizeGigabytes":1e400}`), 400},
		"another kind":             {"POST", collection, asJSON, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"x"}}`, 400},
		"another version":          {"POST", collection, asJSON, `{"apiVersion":"metal3.io/v9","kind":"BareMetalHost","metadata":{"name":"x"}}`, 400},
		"the internal version":     {"POST", collection, asJSON, `{"apiVersion":"metal3.io/__internal","kind":"BareMetalHost","metadata":{"name":"y"}}`, 400},
		"another namespace":        {"POST", collection, asJSON, `{"apiVersion":"metal3.io/v1alpha1","kind":"BareMetalHost","metadata":{"name":"y","namespace":"kube-system"}}`, 400},
		"newline in a name":        {"POST", collection, asJSON, `{"apiVersion":"metal3.io/v1alpha1","kind":"BareMetalHost","metadata":{"name":"x\nI0101 root logged in"}}`, 422},
		"newline in a label":       {"POST", collection, asJSON, host(`,"labels":{"a\nb":"c\nd"}`, ""), 422},
		"newline in an address":    {"POST", collection, asJSON, host("", `,"bmc":{"address":"ipmi://a\nE0101 forged line","credentialsName":"x"}`), 422},
		"path in a name":           {"POST", collection, asJSON, `{"apiVersion":"metal3.io/v1alpha1","kind":"BareMetalHost","metadata":{"name":"../../x"}}`, 422},
		"thousands of mistakes":    {"POST", collection, asJSON, host("", `,"networkInterfaces":[`+strings.TrimSuffix(strings.Repeat(`{"name":"?"},`, 20000), ",")+"]"), 422},
		"no such content type":     {"POST", collection, "text/plain", "x", 415},
		"protobuf":                 {"POST", collection, "application/vnd.kubernetes.protobuf", "k8s\x00", 415},
		"form":                     {"POST", collection, "application/x-www-form-urlencoded", "a=b", 415},
		"no such patch":            {"PATCH", collection + "/x", asJSON, "{}", 415},

		"field selector":           {"GET", collection + "?fieldSelector=spec.bmc.password%3Dx", "", "", 400},
		"field selector, garbage":  {"GET", collection + "?fieldSelector=%00%3D%3D%3D", "", "", 400},
		"label selector":           {"GET", collection + "?labelSelector=%28%28%28", "", "", 400},
		"dryRun":                   {"POST", collection + "?dryRun=Some", asJSON, host("", ""), 422},
		"fieldValidation":          {"POST", collection + "?fieldValidation=Maybe", asJSON, host("", ""), 422},
		"fieldManager":             {"PATCH", collection + "/x?fieldManager=" + strings.Repeat("x", 200), merge, "{}", 422},
		"apply without a manager":  {"PATCH", collection + "/x", apply, host("", ""), 422},
		"propagation":              {"DELETE", collection + "/x?propagationPolicy=Sideways", "", "", 422},
		"another object's uid":     {"DELETE", collection + "/x", asJSON, `{"preconditions":{"uid":"00000000-0000-0000-0000-000000000000"}}`, 409},
		"action of another kind":   {"POST", collection + "/x/power", asJSON, `{"apiVersion":"metal3.io/v1alpha1","kind":"HostInspection","spec":{}}`, 400},
		"action of another group":  {"POST", collection + "/x/power", asJSON, `{"apiVersion":"v1","kind":"Pod","spec":{}}`, 400},
		"action about another":     {"POST", collection + "/x/power", asJSON, `{"apiVersion":"metal3.io/v1alpha1","kind":"HostPower","metadata":{"name":"y"},"spec":{"action":"off"}}`, 400},
		"action that is none":      {"POST", collection + "/x/power", asJSON, `{"apiVersion":"metal3.io/v1alpha1","kind":"HostPower","spec":{"action":"explode\n"}}`, 422},
		"a host as its own status": {"PUT", collection + "/x/status", asJSON, `{"apiVersion":"metal3.io/v1alpha1","kind":"HostPower"}`, 400},
		"no such subresource":      {"POST", collection + "/x/explode", asJSON, "{}", 404},
		"no such resource":         {"GET", groupVersion + "/namespaces/" + ns + "/secrets", "", "", 404},
		"no such version":          {"GET", "/apis/metal3.io/v1/namespaces/" + ns + "/baremetalhosts", "", "", 404},
		"path upwards":             {"GET", collection + "/..%2f..%2f..%2fapi", "", "", 404},
		"NUL in a name":            {"GET", collection + "/x%00y", "", "", 404},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.mustDo(t, ctx, tt.method, tt.path, tt.contentType, tt.body)
			if got.code != tt.code {
				t.Errorf("%d %.500s\nwant %d", got.code, got.body, tt.code)
			}
			if len(got.body) > 2<<20 {
				t.Errorf("an answer of %d bytes", len(got.body))
			}
			if got.code >= 400 {
				checkStatus(t, got)
			}
		})
	}
	t.Run("query", func(t *testing.T) { answersAsKube(t, ctx, c, ns) })
	t.Run("upgrade", func(t *testing.T) { refusesUpgrade(t, ctx, collection) })
	t.Run("header", func(t *testing.T) {
		got, err := c.with("X-Long", strings.Repeat("x", 2<<20)).do(ctx, "GET", collection, "", "")
		if err == nil && got.code != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("2 MiB of header: %d %.200s", got.code, got.body)
		}
	})
	t.Run("accept", func(t *testing.T) {
		for _, accept := range []string{"text/html", "application/json;as=Secret;v=v1;g=core", "application/vnd.kubernetes.protobuf"} {
			if got := c.with("Accept", accept).get(t, ctx, collection+"/x"); got.code != http.StatusNotAcceptable {
				t.Errorf("Accept: %s: %d %.200s", accept, got.code, got.body)
			}
		}
	})
	if now := s.Server.PID(); now != pid || !s.Server.Alive() {
		t.Errorf("the server has ended (process %d, now %d)", pid, now)
	}
	checkLog(t)
	checkMemory(t, pid)
}

func copies(n int) string {
	steps := make([]string, n)
	for i := range steps {
		steps[i] = fmt.Sprintf(`{"op":"copy","from":"/metadata/annotations","path":"/metadata/annotations/a%d"}`, i+1)
	}
	return strings.Join(steps, ",")
}

// answersAsKube: what is wrong with a list or a watch is answered with the same code
// as kube-apiserver does for kinds of its own.
func answersAsKube(t *testing.T, ctx context.Context, c *client, ns string) {
	kube := throughKube(t, user(t, "admin", "system:masters"))
	for _, query := range []string{
		"limit=-1", "limit=x", "limit=99999999999999999999", "resourceVersion=abc", "resourceVersionMatch=Sometimes",
		"resourceVersionMatch=Exact", "watch=1&resourceVersion=abc", "limit=1&continue=abc", "timeoutSeconds=x",
		"watch=1&sendInitialEvents=true",
		// A token of a list that begins elsewhere: start is ../../secrets.
		"limit=1&continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiIuLi8uLi8uLi9zZWNyZXRzIn0",
	} {
		want := kube.get(t, ctx, "/api/v1/namespaces/"+ns+"/configmaps?"+query)
		got := c.get(t, ctx, groupVersion+"/namespaces/"+ns+"/baremetalhosts?"+query)
		if got.code != want.code {
			t.Errorf("%s: %d %.300s\nkube-apiserver: %d %.300s", query, got.code, got.body, want.code, want.body)
		}
		if got.code >= 400 {
			checkStatus(t, got)
		}
	}
}

func checkStatus(t *testing.T, got answer) {
	t.Helper()
	status, err := got.status()
	if err != nil {
		t.Error(err)
		return
	}
	if status.Status != metav1.StatusFailure || status.Message == "" {
		t.Errorf("%+v", status)
	}
}

// refusesUpgrade: nothing here is a stream, and a request that asks for one is
// either refused or answered as any other.
func refusesUpgrade(t *testing.T, ctx context.Context, collection string) {
	address := strings.TrimPrefix(s.Server.Direct.Config.Host, "https://")
	certificate := user(t, "admin", "system:masters")
	for _, path := range []string{collection + "/x", collection + "/x/power", "/api/v1/namespaces/default/pods/x/exec?command=sh"} {
		dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{certificate}, NextProtos: []string{"http/1.1"}}}
		conn, err := dialer.DialContext(ctx, "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nOrigin: https://evil.example.com\r\n\r\n", path)
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Errorf("%s: %v", path, err)
		} else if response.StatusCode == http.StatusSwitchingProtocols {
			t.Errorf("%s: switched protocols", path)
		} else if origin := response.Header.Get("Access-Control-Allow-Origin"); origin != "" {
			t.Errorf("%s: a browser may be told by %s", path, origin)
		}
		_ = conn.Close()
	}
}

// checkLog: no handler has panicked, and nobody has written lines of his own.
func checkLog(t *testing.T) {
	t.Helper()
	log, err := s.Server.Logs()
	if err != nil {
		t.Fatal(err)
	}
	for _, sign := range []string{"Observed a panic", "panic serving", "goroutine stack exceeds", "\nI0101 root", "\nE0101 forged"} {
		if i := strings.Index(log, sign); i >= 0 {
			t.Errorf("the log has %q: %.2000s", sign, log[i:])
		}
	}
	audit, err := os.ReadFile(s.audit)
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(strings.TrimSpace(string(audit)), "\n") {
		if !json.Valid([]byte(line)) {
			t.Fatalf("line %d of the audit log is no JSON: %.300s", i, line)
		}
	}
}

func checkMemory(t *testing.T, pid int) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(status), "\n")
	i := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "VmHWM:") })
	if i < 0 {
		t.Fatal("/proc tells nothing of the server's memory")
	}
	most, err := strconv.Atoi(strings.Fields(lines[i])[1])
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the server has used %d MiB at most", most>>10)
	if most > maxMemory {
		t.Errorf("the server has used %d MiB", most>>10)
	}
}
