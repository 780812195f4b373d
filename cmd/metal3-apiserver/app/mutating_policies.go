// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

const admissionKinds = "/apis/admissionregistration.k8s.io/v1"

// disableUnservedPolicies leaves out the admission plugin for MutatingAdmissionPolicies, unless a flag names it, if the cluster does not
// serve them as v1, as Kubernetes does since 1.36: the plugin would wait for them for ever, and refuse all writes meanwhile.
func disableUnservedPolicies(ctx context.Context, cluster rest.Interface, o *genericoptions.AdmissionOptions) error {
	if o == nil || slices.Contains(slices.Concat(o.EnablePlugins, o.DisablePlugins), mutating.PluginName) {
		return nil
	}
	var kinds metav1.APIResourceList
	switch err := cluster.Get().AbsPath(admissionKinds).Do(ctx).Into(&kinds); {
	case apierrors.IsForbidden(err):
		klog.ErrorS(err, "It cannot be found out whether the cluster has MutatingAdmissionPolicies. If the server does not become ready, "+
			"bind the ClusterRole system:discovery to it, or set --disable-admission-plugins="+mutating.PluginName)
		return nil
	case err != nil:
		return err
	}
	if slices.ContainsFunc(kinds.APIResources, func(r metav1.APIResource) bool { return r.Kind == mutating.PluginName }) {
		return nil
	}
	klog.InfoS("No MutatingAdmissionPolicies apply to hosts until the server is restarted: the cluster does not serve " + admissionKinds[len("/apis/"):] +
		" " + mutating.PluginName)
	o.DisablePlugins = append(o.DisablePlugins, mutating.PluginName)
	return nil
}
