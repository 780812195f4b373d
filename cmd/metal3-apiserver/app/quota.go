package app

import (
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericoptions "k8s.io/apiserver/pkg/server/options"
)

// enforceQuotas has a ResourceQuota on count/baremetalhosts.metal3.io, and on the
// other kinds, hold as it does for custom resources: kube-apiserver does not see
// what is created here, and its controller manager only counts. The plugin comes
// last, so that nothing is charged that another one refuses.
func enforceQuotas(o *genericoptions.RecommendedOptions) {
	resourcequota.Register(o.Admission.Plugins)
	o.Admission.RecommendedPluginOrder = append(o.Admission.RecommendedPluginOrder, resourcequota.PluginName)
	o.ExtraAdmissionInitializers = func(*genericapiserver.RecommendedConfig) ([]admission.PluginInitializer, error) {
		return []admission.PluginInitializer{objectCounts{}}, nil
	}
}

// objectCounts tells the plugin that there is nothing to count but objects, which
// it does by itself for each resource that nobody has told it about.
type objectCounts struct{}

func (objectCounts) Initialize(plugin admission.Interface) {
	if p, ok := plugin.(initializer.WantsQuotaConfiguration); ok {
		p.SetQuotaConfiguration(generic.NewConfiguration(nil, nil))
	}
}
