// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

const (
	clusterNameLabel    = "cluster.x-k8s.io/cluster-name"
	nodeReuseLabel      = "infrastructure.cluster.x-k8s.io/node-reuse"
	unhealthyAnnotation = "capm3.metal3.io/unhealthy"
	capm3Pause          = "metal3.io/capm3"
)

// choose lists hosts by the machine's selector and takes the first that is free: one
// that is kept for this control plane or deployment, if there is any.
func (c *capm3) choose(selector, reuse string) *metal3.BareMetalHost {
	c.t.Helper()
	parsed, err := metav1.ParseToLabelSelector(selector)
	if err != nil {
		c.t.Fatal(err)
	}
	labels, err := metav1.LabelSelectorAsSelector(parsed)
	if err != nil {
		c.t.Fatal(err)
	}
	var list metal3.BareMetalHostList
	if err := c.client.List(c.ctx, &list, client.InNamespace(c.ns), client.MatchingLabelsSelector{Selector: labels}); err != nil {
		c.t.Fatal(err)
	}
	var free *metal3.BareMetalHost
	for i := range list.Items {
		host := &list.Items[i]
		_, paused := host.Annotations[metal3.PausedAnnotation]
		_, unhealthy := host.Annotations[unhealthyAnnotation]
		state := host.Status.Provisioning.State
		if host.Spec.ConsumerRef != nil || host.DeletionTimestamp != nil || host.Status.ErrorMessage != "" || paused || unhealthy ||
			state != metal3.StateAvailable && state != metal3.StateReady {
			continue
		}
		switch kept, isKept := host.Labels[nodeReuseLabel]; {
		case isKept && kept == reuse:
			return host
		case !isKept && free == nil:
			free = host
		}
	}
	return free
}

// claim makes a host the machine's, and labels the Secret of its BMC.
func (c *capm3) claim(host *metal3.BareMetalHost, machine string) {
	c.t.Helper()
	before := host.DeepCopy()
	metav1.SetMetaDataLabel(&host.ObjectMeta, clusterNameLabel, "cluster-0")
	delete(host.Labels, nodeReuseLabel)
	host.Spec.ConsumerRef = &corev1.ObjectReference{
		APIVersion: "infrastructure.cluster.x-k8s.io/v1beta1", Kind: "Metal3Machine", Namespace: c.ns, Name: machine,
	}
	c.labelSecret(host, "cluster-0")
	c.patch(before, host)
}

// labelSecret puts the name of the cluster on the Secret of the BMC, or removes it.
func (c *capm3) labelSecret(host *metal3.BareMetalHost, cluster string) {
	c.t.Helper()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		var secret corev1.Secret
		if err := c.client.Get(c.ctx, client.ObjectKey{Namespace: host.Namespace, Name: host.Spec.BMC.CredentialsName}, &secret); err != nil {
			return err
		}
		if secret.Labels[clusterNameLabel] == cluster {
			return nil
		}
		metav1.SetMetaDataLabel(&secret.ObjectMeta, clusterNameLabel, cluster)
		if cluster == "" {
			delete(secret.Labels, clusterNameLabel)
		}
		return c.client.Update(c.ctx, &secret)
	})
	if err != nil {
		c.t.Fatal(err)
	}
}

// provision tells the host what to run.
func (c *capm3) provision(name string) {
	c.t.Helper()
	reference := func(name string) *corev1.SecretReference {
		return &corev1.SecretReference{Name: name, Namespace: c.ns}
	}
	c.change(name, func(h *metal3.BareMetalHost) {
		h.Spec.Image = &metal3.Image{URL: "http://192.0.2.1/image.qcow2", Checksum: "http://192.0.2.1/image.sha256", ChecksumType: metal3.SHA256, DiskFormat: ptr.To(metal3.DiskFormat("qcow2"))}
		h.Spec.UserData, h.Spec.MetaData, h.Spec.NetworkData = reference("machine-0-user"), reference("machine-0-meta"), reference("machine-0-network")
		h.Spec.AutomatedCleaningMode, h.Spec.Online = metal3.CleaningModeMetadata, true
	})
}

// deprovision is one pass of the deletion of a Metal3Machine. It returns true when
// the host was given back.
func (c *capm3) deprovision(name, keepFor string) bool {
	c.t.Helper()
	host := c.get(name)
	before := host.DeepCopy()
	c.labelSecret(host, "")
	host.Spec.Image, host.Spec.CustomDeploy, host.Spec.UserData, host.Spec.MetaData, host.Spec.NetworkData = nil, nil, nil, nil, nil
	host.Spec.Online = false
	if c.difference(before, host) != "{}" {
		c.patch(before, host)
		return false
	}
	switch host.Status.Provisioning.State {
	case metal3.StateRegistering, metal3.StateMatchProfile, metal3.StateInspecting, metal3.StateReady, metal3.StateAvailable, metal3.StateNone, metal3.StateUnmanaged:
	case metal3.StateExternallyProvisioned:
		if host.Status.PoweredOn {
			return false
		}
	default:
		return false
	}
	host.Spec.ConsumerRef = nil
	delete(host.Labels, clusterNameLabel)
	if keepFor != "" {
		metav1.SetMetaDataLabel(&host.ObjectMeta, nodeReuseLabel, keepFor)
	}
	c.patch(before, host)
	return true
}

// pause is what a paused Cluster, and so `clusterctl move`, does to its hosts.
func (c *capm3) pause(name string) {
	c.t.Helper()
	c.change(name, func(h *metal3.BareMetalHost) {
		text, err := json.Marshal(h.Status)
		if err != nil {
			c.t.Fatal(err)
		}
		status := map[string]any{}
		if err := json.Unmarshal(text, &status); err != nil {
			c.t.Fatal(err)
		}
		delete(status, "hardware")
		for _, ours := range []string{"ironic", "record"} { // which the types of Metal3 do not have
			delete(status, ours)
		}
		if text, err = json.Marshal(status); err != nil {
			c.t.Fatal(err)
		}
		metav1.SetMetaDataAnnotation(&h.ObjectMeta, metal3.PausedAnnotation, capm3Pause)
		metav1.SetMetaDataAnnotation(&h.ObjectMeta, metal3.StatusAnnotation, string(text))
	})
}

// resume removes the pause, if it is CAPM3's own.
func (c *capm3) resume(name string) {
	c.t.Helper()
	c.change(name, func(h *metal3.BareMetalHost) {
		if h.Annotations[metal3.PausedAnnotation] == capm3Pause {
			delete(h.Annotations, metal3.PausedAnnotation)
		}
	})
}

// dataOfMachine makes the Secrets that provision names.
func (c *capm3) dataOfMachine() {
	c.t.Helper()
	for name, key := range map[string]string{"user": "userData", "meta": "metaData", "network": "networkData"} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: c.ns, Name: "machine-0-" + name}, StringData: map[string]string{key: "{}"}}
		if err := c.client.Create(c.ctx, secret); err != nil && !apierrors.IsAlreadyExists(err) {
			c.t.Fatal(err)
		}
	}
	c.took()
}
