package e2e

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// failingImage is one that a real Ironic cannot fetch.
const failingImage = `{"spec":{"image":{"url":"http://127.0.0.1:9/image.qcow2","checksum":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","checksumType":"sha256"}}}`

// failDeployment has the next deployment of a node with failingImage fail, and
// returns what Ironic will say. A real one fails each time.
func failDeployment(t *testing.T, id string) (says string) {
	t.Helper()
	sim, ok := s.ironic.(*simulated)
	if !ok {
		return "Validation of image href http://127.0.0.1:9/image.qcow2 failed"
	}
	if err := sim.FailNext(id, "deploy", "disk on fire"); err != nil {
		t.Fatal(err)
	}
	return "disk on fire"
}

func retry(t *testing.T, ctx context.Context, ns, name string) metal3.HostRetry {
	t.Helper()
	stdout, stderr, err := s.Kube.Kubectl(ctx, `{"spec":{}}`, "create", "--raw", actionPath(ns, name, "retry"), "-f", "-")
	if err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	var answer metal3.HostRetry
	if err := json.Unmarshal([]byte(stdout), &answer); err != nil {
		t.Fatalf("%v: %s", err, stdout)
	}
	if answer.Kind != "HostRetry" || answer.Name != name {
		t.Errorf("answer is %s", stdout)
	}
	return answer
}

// TestDeploymentFails: the host comes back, says why, counts, and is tried again as
// soon as somebody asks for it.
func TestDeploymentFails(t *testing.T) {
	ctx, ns := s.Begin(t)
	b := startBMC(t, ctx)
	createSecret(t, ctx, ns, "creds", "admin", "password")
	createHost(t, ctx, ns, "worker-0", b.Address(), "creds", "")
	id := waitAvailable(t, ctx, ns, "worker-0").Status.Provisioning.ID
	w := watchHosts(t, ctx, ns)
	says := failDeployment(t, id)
	patchHost(t, ctx, ns, "worker-0", failingImage)
	failed := waitHost(t, ctx, ns, "worker-0", 40*time.Second, "has failed", func(h *metal3.BareMetalHost) bool {
		return h.Status.ProvisioningFailCount == 1 && h.Status.Provisioning.State == metal3.StateAvailable
	})
	if s := failed.Status; s.OperationalStatus != metal3.OperationalStatusError || s.ErrorType != metal3.ProvisioningError || !strings.Contains(s.ErrorMessage, says) || s.ErrorCount == 0 {
		t.Errorf("%q, %q, %q, count %d; want Ironic's words, %q", s.OperationalStatus, s.ErrorType, s.ErrorMessage, s.ErrorCount, says)
	}
	sawStates(t, ctx, w, metal3.StateAvailable, metal3.StateProvisioning, metal3.StateDeprovisioning, metal3.StateAvailable)
	hasEvents(t, ctx, ns, "worker-0", "ProvisioningError")
	first := settled(t, ctx, ns, "worker-0").Status.OperationHistory.Provision.Start // it waits a minute at least

	answer := retry(t, ctx, ns, "worker-0")
	if !strings.Contains(answer.Status.ErrorMessage, says) || answer.Status.ErrorType != metal3.ProvisioningError {
		t.Errorf("what is tried again: %+v", answer.Status)
	}
	asked := time.Now()
	waitHost(t, ctx, ns, "worker-0", 5*time.Second, "is tried again", func(h *metal3.BareMetalHost) bool {
		return h.Status.OperationHistory.Provision.Start.After(first.Time)
	})
	t.Logf("tried again %s after /retry", time.Since(asked).Round(time.Millisecond))
	if _, ok := s.ironic.(*simulated); ok {
		host := waitState(t, ctx, ns, "worker-0", metal3.StateProvisioned)
		if s := host.Status; s.ProvisioningFailCount != 0 || s.ErrorCount != 0 || s.ErrorType != "" {
			t.Errorf("errors are left: %d, %d, %q", s.ProvisioningFailCount, s.ErrorCount, s.ErrorType)
		}
		return
	}
	waitHost(t, ctx, ns, "worker-0", 40*time.Second, "has failed again", func(h *metal3.BareMetalHost) bool {
		return h.Status.ProvisioningFailCount == 1 && h.Status.Provisioning.State == metal3.StateAvailable
	})
	patchHost(t, ctx, ns, "worker-0", noImage)
	waitAvailable(t, ctx, ns, "worker-0") // and the error is forgotten
}

// TestUserDataMissing: nothing is deployed without it, the host says what it
// waits for, and goes on when it is there.
func TestUserDataMissing(t *testing.T) {
	ctx, ns := s.Begin(t)
	fakeHost(t, ctx, ns, "worker-0")
	patchHost(t, ctx, ns, "worker-0", strings.Replace(wantImage, `{"spec":{`, `{"spec":{"userData":{"name":"user-data"},`, 1))
	host := waitHost(t, ctx, ns, "worker-0", 15*time.Second, "complains", func(h *metal3.BareMetalHost) bool { return h.Status.ErrorMessage != "" })
	if s := host.Status; s.ErrorType != metal3.ProvisioningError || !strings.Contains(s.ErrorMessage, `"user-data"`) || s.Provisioning.State != metal3.StateProvisioning {
		t.Errorf("%q: %q in state %q", s.ErrorType, s.ErrorMessage, s.Provisioning.State)
	}
	createSecretData(t, ctx, ns, "user-data", map[string]string{"userData": "#cloud-config\n"})
	waitHost(t, ctx, ns, "worker-0", 12*time.Second, "is tried again by itself", func(h *metal3.BareMetalHost) bool { return h.Status.ErrorMessage == "" })
	waitState(t, ctx, ns, "worker-0", metal3.StateProvisioned)
}
