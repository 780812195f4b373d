// SPDX-License-Identifier: Apache-2.0

package app

import (
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericoptions "k8s.io/apiserver/pkg/server/options"
)

// enforceQuotas enforces ResourceQuotas on count/baremetalhosts.metal3.io, and on the other
// kinds, as for custom resources. kube-apiserver does not see the objects that are created here,
// and kube-controller-manager only counts them. The plugin is the last one, so that an object
// that another plugin refuses is not charged.
func enforceQuotas(o *genericoptions.RecommendedOptions) {
	resourcequota.Register(o.Admission.Plugins)
	o.Admission.RecommendedPluginOrder = append(o.Admission.RecommendedPluginOrder, resourcequota.PluginName)
	o.ExtraAdmissionInitializers = func(*genericapiserver.RecommendedConfig) ([]admission.PluginInitializer, error) {
		return []admission.PluginInitializer{objectCounts{}}, nil
	}
}

// objectCounts gives the plugin a configuration without evaluators. The plugin counts the objects
// of each resource for which there is no evaluator.
type objectCounts struct{}

func (objectCounts) Initialize(plugin admission.Interface) {
	if p, ok := plugin.(initializer.WantsQuotaConfiguration); ok {
		p.SetQuotaConfiguration(generic.NewConfiguration(nil, nil))
	}
}
