// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/metal3-io/metal3-apiserver/pkg/bmo"
)

// The paths of the operator's webhooks, by the convention of controller-runtime. The
// webhooks of ipam.metal3.io and infrastructure.cluster.x-k8s.io have other paths.
const validatingPath, mutatingPath = "/validate-metal3-io-v1alpha1-", "/mutate-metal3-io-v1alpha1-"

// check looks for what would interfere with a migration. It returns what serves the group, and those of kinds that
// have a CRD.
func (c *Cluster) check(ctx context.Context, target Target, kinds []*Kind, refuse *refusals) (by handler, defined []*Kind, err error) {
	by, service, err := c.servedBy(ctx, target)
	if err != nil {
		return "", nil, err
	}
	if by == servedByOther {
		refuse.add("APIService %s names the Service %s, not %s/%s: find out what serves the API before you continue", apiServiceName, service, target.Namespace, target.Name)
	}
	if defined, err = c.definedKinds(ctx, kinds, refuse); err != nil {
		return "", nil, err
	}
	if err := c.checkOperator(ctx, refuse); err != nil {
		return "", nil, err
	}
	return by, defined, c.checkWebhooks(ctx, refuse)
}

// checkOperator looks for an operator that would act on the same hosts.
func (c *Cluster) checkOperator(ctx context.Context, refuse *refusals) error {
	deployments, err := c.kube.AppsV1().Deployments(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("looking for the operator's Deployment: %w", err)
	}
	for i := range deployments.Items {
		d := &deployments.Items[i]
		if !isOperator(d) || ptr.Deref(d.Spec.Replicas, 1) == 0 && d.Status.Replicas == 0 {
			continue
		}
		if ptr.Deref(d.Spec.Replicas, 1) == 0 {
			refuse.add("Deployment %s/%s still has %d pods: wait until they have terminated", d.Namespace, d.Name, d.Status.Replicas)
			continue
		}
		refuse.add("the operator is running: stop it with kubectl scale deployment -n %s %s --replicas=0", d.Namespace, d.Name)
	}
	leases, err := c.kube.CoordinationV1().Leases(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + bmo.Name})
	if err != nil {
		return fmt.Errorf("looking for the operator's Lease: %w", err)
	}
	for i := range leases.Items {
		lease := &leases.Items[i]
		renewed, err := bmo.IsRenewed(ctx, c.kube.CoordinationV1(), lease)
		if err != nil {
			return err
		}
		if renewed {
			refuse.add("an operator without a Deployment is running: Lease %s/%s is being renewed by %s: stop it",
				lease.Namespace, lease.Name, ptr.Deref(lease.Spec.HolderIdentity, ""))
		}
	}
	return nil
}

// isOperator reports whether a Deployment runs the operator. Its own manifests name that of Ironic "baremetal-operator-ironic", which
// must go on.
func isOperator(d *appsv1.Deployment) bool {
	containers := d.Spec.Template.Spec.Containers
	runsOperator := slices.ContainsFunc(containers, func(c corev1.Container) bool {
		program := slices.Concat(c.Command, c.Args, []string{""})[0]
		return strings.Contains(c.Name, bmo.Name) || strings.Contains(nameOfImage(c.Image), bmo.Name) || path.Base(program) == bmo.Name
	})
	runsIronic := slices.ContainsFunc(containers, func(c corev1.Container) bool {
		return strings.Contains(c.Name, "ironic") || strings.Contains(nameOfImage(c.Image), "ironic")
	})
	return runsOperator || !runsIronic && strings.Contains(d.Name, bmo.Name)
}

// nameOfImage returns the last part of an image's name, without its tag and its digest.
func nameOfImage(image string) string {
	name, _, _ := strings.Cut(path.Base(image), "@")
	name, _, _ = strings.Cut(name, ":")
	return name
}

// checkWebhooks looks for the operator's webhooks. Nothing answers them while the operator
// is stopped, and metal3-apiserver would call them, too.
func (c *Cluster) checkWebhooks(ctx context.Context, refuse *refusals) error {
	check := func(kind, config, webhook string, client admissionregistrationv1.WebhookClientConfig) {
		if client.Service == nil || client.Service.Path == nil {
			return
		}
		if path := *client.Service.Path; strings.HasPrefix(path, validatingPath) || strings.HasPrefix(path, mutatingPath) {
			refuse.add("webhook %s of the operator is configured, but nothing answers it: remove it with kubectl delete %s %s", webhook, kind, config)
		}
	}
	validating, err := c.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("looking for the operator's webhooks: %w", err)
	}
	for _, config := range validating.Items {
		for _, webhook := range config.Webhooks {
			check("validatingwebhookconfiguration", config.Name, webhook.Name, webhook.ClientConfig)
		}
	}
	mutating, err := c.kube.AdmissionregistrationV1().MutatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("looking for the operator's webhooks: %w", err)
	}
	for _, config := range mutating.Items {
		for _, webhook := range config.Webhooks {
			check("mutatingwebhookconfiguration", config.Name, webhook.Name, webhook.ClientConfig)
		}
	}
	return nil
}
