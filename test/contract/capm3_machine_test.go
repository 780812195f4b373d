// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

func isProvisioned(h *metal3.BareMetalHost) bool {
	return h.Status.Provisioning.State == metal3.StateProvisioned && h.Status.PoweredOn
}

// asByDefault has a host inspected and cleaned, as hosts are by default.
func asByDefault(h *metal3.BareMetalHost) {
	h.Spec.InspectionMode, h.Spec.AutomatedCleaningMode = "", ""
}

// TestCAPM3Machine is the life of a Metal3Machine on a host, from the choice of the
// host to its return, with a pause and a remediation in between. Each step names the
// requests that Cluster API Provider Metal3 sends, and what it expects of them.
func TestCAPM3Machine(t *testing.T) {
	t.Parallel()
	ctx, ns := s.Begin(t)
	c := newCAPM3(t, ctx, ns)
	pool, off := withLabel("pool", "x"), func(h *metal3.BareMetalHost) { h.Spec.Online = false }
	managedHost(t, ctx, ns, "worker-0", pool, off, asByDefault)
	managedHost(t, ctx, ns, "unhealthy", pool, func(h *metal3.BareMetalHost) {
		metav1.SetMetaDataAnnotation(&h.ObjectMeta, unhealthyAnnotation, "capm3/UnhealthyNode")
	})
	managedHost(t, ctx, ns, "of-another", pool, func(h *metal3.BareMetalHost) { h.Spec.ConsumerRef = &corev1.ObjectReference{Name: "other"} })
	managedHost(t, ctx, ns, "outside", withLabel("pool", "y"))
	managedHost(t, ctx, ns, "failing", pool, func(h *metal3.BareMetalHost) { h.Spec.BMC.CredentialsName = "no-such" })
	idleHost(t, ctx, ns, "paused", pool)
	for _, name := range []string{"worker-0", "unhealthy", "of-another", "outside"} {
		c.until(name, "available", isAvailable)
	}
	c.until("failing", "failing", func(h *metal3.BareMetalHost) bool { return h.Status.ErrorMessage != "" })
	c.dataOfMachine()

	host := c.choose("pool=x", "")
	c.sent("choose a host", "GET baremetalhosts?labelSelector=pool=x")
	if host == nil || host.Name != "worker-0" {
		t.Fatalf("chosen is %+v, want worker-0, which alone is free", host)
	}
	id := host.Status.Provisioning.ID

	c.claim(host, "machine-0")
	c.sent("claim it", "GET secrets/worker-0-bmc", "PUT secrets/worker-0-bmc",
		mergePatchOf("worker-0", `{"metadata":{"labels":{"cluster.x-k8s.io/cluster-name":"cluster-0"}},"spec":{"consumerRef":{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta1","kind":"Metal3Machine","name":"machine-0","namespace":"NS"}}}`))
	if again := c.choose("pool=x", ""); again != nil {
		t.Errorf("host %s can be chosen for a second machine", again.Name)
	}
	c.took()

	c.provision("worker-0")
	c.sent("provision it", "GET baremetalhosts/worker-0",
		mergePatchOf("worker-0", `{"spec":{"image":{"checksum":"http://192.0.2.1/image.sha256","checksumType":"sha256","format":"qcow2","url":"http://192.0.2.1/image.qcow2"},"metaData":{"name":"machine-0-meta","namespace":"NS"},"networkData":{"name":"machine-0-network","namespace":"NS"},"online":true,"userData":{"name":"machine-0-user","namespace":"NS"}}}`))
	host = c.until("worker-0", "provisioned", isProvisioned)
	if host.Spec.ConsumerRef == nil || host.Spec.ConsumerRef.Name != "machine-0" || host.Labels[clusterNameLabel] != "cluster-0" || host.Status.ErrorMessage != "" {
		t.Errorf("provisioned is %+v %+v", host.ObjectMeta, host.Spec)
	}
	// From these come the addresses of the Machine and, by the UID, its Node.
	hardware := host.Status.HardwareDetails
	if hardware == nil || len(hardware.NIC) == 0 || hardware.NIC[0].IP == "" || hardware.NIC[0].MAC == "" || hardware.NIC[0].Name == "" || hardware.Hostname == "" || host.UID == "" {
		t.Errorf("hardware of the provisioned host: %+v", hardware)
	}

	t.Run("sync labels", func(t *testing.T) {
		s.PatchHost(t, ctx, ns, "worker-0", `{"metadata":{"labels":{"my-prefix.metal3.io/rack":"r7"}}}`)
		c.until("worker-0", "labelled", func(h *metal3.BareMetalHost) bool { return h.Labels["my-prefix.metal3.io/rack"] == "r7" })
	})
	t.Run("pause", func(t *testing.T) {
		c.pause("worker-0")
		if sent := c.took(); len(sent) != 2 || sent[0] != "GET baremetalhosts/worker-0" || !isMergePatchOf(sent[1], "worker-0", `{"metadata":{"annotations":{"baremetalhost.metal3.io/paused":"metal3.io/capm3","baremetalhost.metal3.io/status":"{`) {
			t.Errorf("requests to pause: %q", sent)
		}
		host := c.get("worker-0")
		if host.Annotations[metal3.PausedAnnotation] != capm3Pause || !isProvisioned(host) {
			t.Errorf("the paused host is %+v %+v", host.Annotations, host.Status)
		}
		c.took()
		c.resume("worker-0")
		c.sent("resume", "GET baremetalhosts/worker-0", mergePatchOf("worker-0", `{"metadata":{"annotations":{"baremetalhost.metal3.io/paused":null}}}`))
		c.until("worker-0", "without the saved status", func(h *metal3.BareMetalHost) bool {
			_, saved := h.Annotations[metal3.StatusAnnotation]
			return !saved && isProvisioned(h)
		})
	})
	t.Run("remediate", func(t *testing.T) {
		const annotation = metal3.RebootAnnotationPrefix + "metal3-remediation-0b9ab2a1-3e3f-4b0c-9d53-6f2f3c1d2e4f"
		c.change("worker-0", func(h *metal3.BareMetalHost) {
			metav1.SetMetaDataAnnotation(&h.ObjectMeta, annotation, `{"mode":"hard","force":false}`)
		})
		c.sent("power off", "GET baremetalhosts/worker-0", mergePatchOf("worker-0", fmt.Sprintf(`{"metadata":{"annotations":{%q:"{\"mode\":\"hard\",\"force\":false}"}}}`, annotation)))
		host := c.until("worker-0", "off", func(h *metal3.BareMetalHost) bool { return !h.Status.PoweredOn })
		if _, requested := host.Annotations[annotation]; !requested || !host.Spec.Online || host.Status.Provisioning.State != metal3.StateProvisioned {
			t.Errorf("held off, the host is %+v online %t %+v", host.Annotations, host.Spec.Online, host.Status)
		}
		c.change("worker-0", func(h *metal3.BareMetalHost) { delete(h.Annotations, annotation) })
		// It was the last one, and a Go type does not write an empty map.
		c.sent("power on", "GET baremetalhosts/worker-0", mergePatchOf("worker-0", `{"metadata":{"annotations":null}}`))
		c.until("worker-0", "on again", isProvisioned)
	})
	t.Run("give up", func(t *testing.T) {
		c.change("worker-0", func(h *metal3.BareMetalHost) {
			metav1.SetMetaDataAnnotation(&h.ObjectMeta, unhealthyAnnotation, "capm3/UnhealthyNode")
		})
		c.sent("mark it", "GET baremetalhosts/worker-0", mergePatchOf("worker-0", `{"metadata":{"annotations":{"capm3.metal3.io/unhealthy":"capm3/UnhealthyNode"}}}`))
		s.PatchHost(t, ctx, ns, "worker-0", `{"metadata":{"annotations":{"capm3.metal3.io/unhealthy":null}}}`) // its user
	})

	if c.deprovision("worker-0", "") {
		t.Fatal("a provisioned host was given back")
	}
	c.sent("deprovision", "GET baremetalhosts/worker-0", "GET secrets/worker-0-bmc", "PUT secrets/worker-0-bmc",
		mergePatchOf("worker-0", `{"spec":{"image":null,"metaData":null,"networkData":null,"online":false,"userData":null}}`))
	c.until("worker-0", "available", isAvailable)
	if targets := s.ironic.ProvisionTargets(id); !slices.Contains(targets, "deleted") {
		t.Errorf("the host was available again before it was deprovisioned: Ironic was asked for %v", targets)
	}
	if !c.deprovision("worker-0", "control-plane-0") {
		t.Fatal("the deprovisioned host was not given back")
	}
	c.sent("give it back", "GET baremetalhosts/worker-0", "GET secrets/worker-0-bmc",
		mergePatchOf("worker-0", `{"metadata":{"labels":{"cluster.x-k8s.io/cluster-name":null,"infrastructure.cluster.x-k8s.io/node-reuse":"control-plane-0"}},"spec":{"consumerRef":null}}`))

	if other := c.choose("pool=x", "deployment-0"); other != nil {
		t.Errorf("host %s, kept for control-plane-0, can be chosen for deployment-0", other.Name)
	}
	c.took()
	host = c.choose("pool=x", "control-plane-0")
	if host == nil || host.Name != "worker-0" {
		t.Fatalf("chosen is %+v, want worker-0, which was kept", host)
	}
	c.claim(host, "machine-1")
	c.sent("claim what was kept", "GET baremetalhosts?labelSelector=pool=x", "GET secrets/worker-0-bmc", "PUT secrets/worker-0-bmc",
		mergePatchOf("worker-0", `{"metadata":{"labels":{"cluster.x-k8s.io/cluster-name":"cluster-0","infrastructure.cluster.x-k8s.io/node-reuse":null}},"spec":{"consumerRef":{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta1","kind":"Metal3Machine","name":"machine-1","namespace":"NS"}}}`))

	targets := s.ironic.ProvisionTargets(id)
	deployed := len(slices.DeleteFunc(slices.Clone(targets), func(target string) bool { return target != "active" }))
	if now := c.get("worker-0"); deployed != 1 || now.Status.Provisioning.ID != id {
		t.Errorf("Ironic was asked for %v of node %s, want one deployment; the node is %s now", targets, id, now.Status.Provisioning.ID)
	}
}

// TestCAPM3Patches: a change of spec, status and conditions at once is three
// patches, and none of them disturbs the other halves.
func TestCAPM3Patches(t *testing.T) {
	t.Parallel()
	ctx, ns := s.Begin(t)
	c := newCAPM3(t, ctx, ns)
	created := idleHost(t, ctx, ns, "worker-0")
	c.change("worker-0", func(*metal3.BareMetalHost) {})
	c.sent("change nothing", "GET baremetalhosts/worker-0")
	at := metav1.Unix(1767225600, 0)
	c.change("worker-0", func(h *metal3.BareMetalHost) {
		h.Spec.Description, h.Status.ErrorMessage = "mine", "mine"
		h.Status.Conditions = append(h.Status.Conditions, metav1.Condition{Type: "Mine", Status: metav1.ConditionTrue, Reason: "Mine", LastTransitionTime: at})
		// The controller is at work on other fields meanwhile.
		s.PatchHost(t, ctx, ns, "worker-0", `{"status":{"errorCount":3}}`, "status")
	})
	sent := c.took()
	if len(sent) != 5 || sent[0] != sent[1] || !isMergePatchOf(sent[2], "worker-0/status", `{"metadata":{"resourceVersion":"`) ||
		sent[3] != mergePatchOf("worker-0", `{"spec":{"description":"mine"}}`) || sent[4] != mergePatchOf("worker-0/status", `{"status":{"errorMessage":"mine"}}`) {
		t.Errorf("requests to change all: %q", sent)
	}
	host := c.get("worker-0")
	if host.Spec.Description != "mine" || host.Status.ErrorMessage != "mine" || host.Status.ErrorCount != 3 || host.Generation != created.Generation+1 ||
		!slices.ContainsFunc(host.Status.Conditions, func(c metav1.Condition) bool { return c.Type == "Mine" && c.LastTransitionTime.Equal(&at) }) {
		t.Errorf("after it, the host is %+v %+v %+v", host.ObjectMeta, host.Spec, host.Status)
	}
}
