// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// gitOpsSpecs are what repositories have of hosts: the fields of a BMC's host, and those of one that runs something.
var gitOpsSpecs = []string{
	`{"online":true,"bootMACAddress":"52:54:00:AA:BB:CC","bootMode":"UEFISecureBoot","automatedCleaningMode":"disabled","inspectionMode":"fast","architecture":"x86_64",
	"bmc":{"address":"redfish+https://[2001:DB8::1]:443/redfish/v1/Systems/1/","credentialsName":"none","disableCertificateVerification":true},
	"rootDeviceHints":{"deviceName":"/dev/disk/by-path/pci-0000:00:1f.2-ata-1","minSizeGigabytes":10,"rotational":false},"raid":{"hardwareRAIDVolumes":[],"softwareRAIDVolumes":[]}}`,
	`{"online":false,"description":"rack 7","bmc":{"address":"192.0.2.1","credentialsName":"none"},"externallyProvisioned":true,
	"image":{"url":"http://192.0.2.1/a.qcow2","checksum":"http://192.0.2.1/SUMS","checksumType":"sha256","format":"qcow2"},"customDeploy":{"method":"install"},
	"userData":{"name":"user"},"networkData":{"name":"network"},"metaData":{"name":"meta"},"preprovisioningNetworkDataName":"ramdisk",
	"networkInterfaces":[{"name":"eno1","hostNetworkAttachment":{"name":"tenant"},"switchPort":{"switchID":"00:1B:21:AA:BB:CC","portID":"Ethernet7"}}],
	"consumerRef":{"apiVersion":"v1","kind":"Pod","name":"a","namespace":"b"}}`,
}

// TestGitOpsDrift: what Argo CD and Flux apply is stored as it was applied, so that neither finds a difference later.
func TestGitOpsDrift(t *testing.T) {
	k := newShell(t)
	var manifests []string
	names := map[string]string{} // of the objects, with their kinds, as kubectl names them
	add := func(kind, name, spec string) {
		manifests = append(manifests, fmt.Sprintf(`{"apiVersion":"metal3.io/v1alpha1","kind":%q,"metadata":{"name":%q,"labels":{"gitops":"yes"}},"spec":%s}`, kind, name, spec))
		names[strings.ToLower(kind)+".metal3.io/"+name] = manifests[len(manifests)-1]
	}
	for kind, sample := range kindSamples {
		if kind != "Provisioning" { // of which there is one for all tests
			add(kind, "of-"+strings.ToLower(kind), sample.spec)
		}
	}
	for i, spec := range gitOpsSpecs {
		add("BareMetalHost", fmt.Sprintf("full-%d", i), spec)
	}
	all := strings.Join(manifests, "\n")
	generations := func() string {
		return k.ok("", "get", "-f", k.file("all.json", all), "-o", `jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.generation}{"\n"}{end}`)
	}
	says := func(what string, args ...string) {
		t.Helper()
		lines := strings.Split(k.ok(all, args...), "\n")
		slices.Sort(lines)
		var want []string
		for _, name := range slices.Sorted(maps.Keys(names)) {
			want = append(want, name+" "+what)
		}
		if !slices.Equal(lines, want) {
			t.Errorf("kubectl %s says %q, want %q", strings.Join(args, " "), lines, want)
		}
	}
	hasNoDiff := func(args ...string) {
		t.Helper()
		if stdout, stderr, code := k.run(all, append([]string{"diff", "-f", "-"}, args...)...); code != 0 || stdout != "" {
			t.Errorf("kubectl diff %s: exit code %d: %s%s", strings.Join(args, " "), code, stdout, stderr)
		}
	}

	// As Argo CD does by default. It compares the manifests with what is stored itself.
	says("created", "apply", "-f", "-")
	var stored struct{ Items []map[string]any }
	if err := json.Unmarshal([]byte(k.ok("", "get", "-f", k.file("all.json", all), "-o", "json")), &stored); err != nil {
		t.Fatal(err)
	}
	for _, got := range stored.Items {
		name := strings.ToLower(got["kind"].(string)) + ".metal3.io/" + got["metadata"].(map[string]any)["name"].(string)
		var want map[string]any
		if err := json.Unmarshal([]byte(names[name]), &want); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, lost := range lostIn("spec", want["spec"], got["spec"]) {
			t.Errorf("%s is not stored as it was applied: %s", name, lost)
		}
	}
	if len(stored.Items) != len(names) {
		t.Errorf("%d objects are stored, want %d", len(stored.Items), len(names))
	}
	applied := generations()
	says("unchanged", "apply", "-f", "-")
	hasNoDiff()

	// As Flux does, and Argo CD if it is told to.
	flux := []string{"--server-side", "--force-conflicts", "--field-manager=kustomize-controller"}
	for range 2 {
		says("serverside-applied", append([]string{"apply", "-f", "-"}, flux...)...)
		hasNoDiff(flux...)
	}
	if now := generations(); now != applied {
		t.Errorf("generations were\n%s, and are\n%s", applied, now)
	}

	t.Run("values that are the same as none", func(t *testing.T) {
		k := k.in(t)
		zeros := hostYAML("zeros", `online: false, externallyProvisioned: false, disablePowerOff: false, description: "", taints: []`)
		k.ok(zeros, "apply", "-f", "-")
		k.settled("zeros")
		// They are not stored, so docs/gitops.md has Argo CD ask the server for differences.
		if got := k.field("zeros", ".spec.externallyProvisioned}{.spec.disablePowerOff}{.spec.description}{.spec.taints"); got != "" {
			t.Errorf("stored are %q", got)
		}
		version := k.field("zeros", ".metadata.resourceVersion")
		for _, args := range [][]string{nil, flux} {
			if stdout, stderr, code := k.run(zeros, append([]string{"diff", "-f", "-"}, args...)...); code != 0 || stdout != "" {
				t.Errorf("kubectl diff %q: exit code %d: %s%s", args, code, stdout, stderr)
			}
		}
		k.prints("baremetalhost.metal3.io/zeros configured", zeros, "apply", "-f", "-")
		if got := k.field("zeros", ".metadata.resourceVersion"); got != version {
			t.Errorf("applying the same has written: resourceVersion %s, then %s", version, got)
		}
	})
}

// lostIn are the fields of a manifest that are not there, or differ, in what is stored.
func lostIn(path string, want, got any) (lost []string) {
	switch want := want.(type) {
	case map[string]any:
		if got, is := got.(map[string]any); is {
			for key, value := range want {
				lost = append(lost, lostIn(path+"."+key, value, got[key])...)
			}
			return lost
		}
	case []any:
		if got, is := got.([]any); is && len(got) == len(want) {
			for i := range want {
				lost = append(lost, lostIn(fmt.Sprintf("%s[%d]", path, i), want[i], got[i])...)
			}
			return lost
		}
	default:
		if got == want {
			return nil
		}
	}
	return []string{fmt.Sprintf("%s is %v, was %v", path, got, want)}
}

// gitOpsJudge is a running bin/gitops.
type gitOpsJudge struct {
	t    *testing.T
	in   *json.Encoder
	said *json.Decoder
}

func newGitOpsJudge(t *testing.T) gitOpsJudge {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "../../bin/gitops", "../../artifacts/gitops/argocd/argocd-cm.yaml", "../../artifacts/gitops/flux/health-checks.yaml")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v: build it with hack/tools/build.sh gitops", err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_, _ = io.Copy(io.Discard, out)
		if err := cmd.Wait(); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	})
	return gitOpsJudge{t, json.NewEncoder(in), json.NewDecoder(bufio.NewReader(out))}
}

// judge is what Argo CD and Flux conclude of a host.
func (j gitOpsJudge) judge(host *metal3.BareMetalHost) (health, message, flux string) {
	j.t.Helper()
	host.APIVersion, host.Kind = metal3.SchemeGroupVersion.String(), "BareMetalHost" // which typed clients drop
	var verdict struct{ Health, Message, Flux string }
	if err := j.in.Encode(host); err != nil {
		j.t.Fatal(err)
	}
	if err := j.said.Decode(&verdict); err != nil {
		j.t.Fatal(err)
	}
	return verdict.Health, verdict.Message, verdict.Flux
}

// TestGitOpsWaits: from the moment at which a spec was written, no read is taken for its end before that.
func TestGitOpsWaits(t *testing.T) {
	t.Parallel()
	ctx, ns := s.Begin(t)
	j := newGitOpsJudge(t)
	// waits reads the host until it is healthy, and fails if it is so in vain.
	waits := func(name, what string, done func(*metal3.BareMetalHost) bool) {
		t.Helper()
		for {
			host, err := s.Hosts(ns).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			health, message, flux := j.judge(host)
			if isHealthy, isDone := health == "Healthy", done(host); isHealthy && !isDone || isHealthy != (flux == "Current") {
				t.Fatalf("%s: Argo CD says %s (%s), Flux %s of a host in state %q that runs %q, on %t", what, health, message, flux,
					host.Status.Provisioning.State, host.Status.Provisioning.Image.URL, host.Status.PoweredOn)
			} else if isHealthy {
				return
			}
		}
	}
	runs := func(url string) func(*metal3.BareMetalHost) bool {
		return func(h *metal3.BareMetalHost) bool {
			return h.Status.Provisioning.State == metal3.StateProvisioned && h.Status.Provisioning.Image.URL == url
		}
	}
	images := []string{"http://192.0.2.1/a.qcow2", "http://192.0.2.1/b.qcow2"}
	managedHost(t, ctx, ns, "worker-0")
	waits("worker-0", "enrolled", func(h *metal3.BareMetalHost) bool { return h.Status.Provisioning.State == metal3.StateAvailable })
	for _, url := range images {
		s.PatchHost(t, ctx, ns, "worker-0", `{"spec":{"image":{"url":"`+url+`","checksum":"d41d8cd98f00b204e9800998ecf8427e","checksumType":"md5"}}}`)
		waits("worker-0", url, runs(url))
	}
	s.PatchHost(t, ctx, ns, "worker-0", `{"spec":{"image":null}}`)
	waits("worker-0", "without an image", func(h *metal3.BareMetalHost) bool {
		return h.Status.Provisioning.State == metal3.StateAvailable
	})
}
