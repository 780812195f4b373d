// SPDX-License-Identifier: Apache-2.0

package app

import (
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/discovery"
	"k8s.io/klog/v2"
)

// mutatingPolicies are served since Kubernetes 1.36.
var mutatingPolicies = admissionregistrationv1.SchemeGroupVersion.WithResource("mutatingadmissionpolicies")

// disableUnservedPolicies leaves out the admission plugin for MutatingAdmissionPolicies, unless a flag names it, if the cluster does not
// serve them: the plugin would wait for them for ever, and refuse all writes meanwhile.
func disableUnservedPolicies(cluster discovery.DiscoveryInterface, o *genericoptions.AdmissionOptions) error {
	if o == nil || slices.Contains(slices.Concat(o.EnablePlugins, o.DisablePlugins), mutating.PluginName) {
		return nil
	}
	served, err := discovery.IsResourceEnabled(cluster, mutatingPolicies)
	switch {
	case apierrors.IsForbidden(err):
		klog.ErrorS(err, "It is not known whether the cluster has MutatingAdmissionPolicies. If the server does not become ready, "+
			"bind the ClusterRole system:discovery to it, or set --disable-admission-plugins="+mutating.PluginName)
	case err != nil:
		return err
	case !served:
		klog.InfoS("The cluster does not serve MutatingAdmissionPolicies as v1: none applies to hosts until the server is restarted")
		o.DisablePlugins = append(o.DisablePlugins, mutating.PluginName)
	}
	return nil
}
