// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"errors"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"

	ironicv1alpha1 "github.com/metal3-io/metal3-apiserver/pkg/apis/ironic/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/install"
	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/openapi"
	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/store"
)

var (
	// Scheme has every kind that the server serves twice: as v1alpha1, and with the same
	// Go type as the internal version.
	Scheme = runtime.NewScheme()
	// Codecs are the codecs of Scheme.
	Codecs = serializer.NewCodecFactory(Scheme)

	// StorageVersions are the versions in which objects are stored.
	StorageVersions = schema.GroupVersions{v1alpha1.SchemeGroupVersion, ironicv1alpha1.SchemeGroupVersion}

	// externalScheme has only the external kinds. It is used for OpenAPI, which would show
	// clients a version named __internal if it were generated from Scheme.
	externalScheme = runtime.NewScheme()
)

func init() {
	install.Install(Scheme)
	utilruntime.Must(ironicv1alpha1.Install(Scheme))
	utilruntime.Must(v1alpha1.AddToScheme(externalScheme))
	utilruntime.Must(ironicv1alpha1.AddToScheme(externalScheme))
	for _, scheme := range []*runtime.Scheme{Scheme, externalScheme} {
		// The types with which the generic server itself answers.
		unversioned := schema.GroupVersion{Version: "v1"}
		metav1.AddToGroupVersion(scheme, unversioned)
		scheme.AddUnversionedTypes(unversioned,
			&metav1.Status{}, &metav1.APIVersions{}, &metav1.APIGroupList{}, &metav1.APIGroup{}, &metav1.APIResourceList{})
	}
}

// AddOpenAPI configures OpenAPI v2 and v3. It must be called before the options are applied
// to the configuration.
func AddOpenAPI(config *genericapiserver.RecommendedConfig, version string) {
	namer := openapinamer.NewDefinitionNamer(externalScheme)
	config.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(openapi.GetOpenAPIDefinitions, namer)
	config.OpenAPIConfig.Info.Title, config.OpenAPIConfig.Info.Version = "metal3-apiserver", version
	config.OpenAPIConfig.PostProcessSpec = withoutStrategicMergePatch
	config.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(openapi.GetOpenAPIDefinitions, namer)
	config.OpenAPIV3Config.Info.Title, config.OpenAPIV3Config.Info.Version = "metal3-apiserver", version
	config.OpenAPIV3Config.PostProcessSpec = withoutStrategicMergePatchV3
}

// Complete fills in the fields of the configuration that are derived from others.
func Complete(config *genericapiserver.RecommendedConfig) genericapiserver.CompletedConfig {
	config.MaxRequestBodyBytes, config.JSONPatchMaxCopyBytes = maxBody, maxCopied
	buildHandlers := config.BuildHandlerChainFunc
	config.BuildHandlerChainFunc = func(api http.Handler, c *genericapiserver.Config) http.Handler {
		return finishDiscovery(buildHandlers(store.WithReconnect(refuseStrategicMergePatch(limitBodies(withFastCompression(api)))), c))
	}
	return config.Complete()
}

// New returns a server that serves no API group yet. It must be created before the stores
// are: it registers the metrics that they use.
func New(config genericapiserver.CompletedConfig) (*genericapiserver.GenericAPIServer, error) {
	server, err := config.New("metal3-apiserver", genericapiserver.NewEmptyDelegate())
	if err != nil {
		return nil, err
	}
	if proxy := config.Authentication.RequestHeaderConfig; proxy != nil {
		if err := server.AddReadyzChecks(healthz.NamedCheck("front-proxy", func(*http.Request) error { return knowsFrontProxy(proxy) })); err != nil {
			return nil, err
		}
	}
	return server, nil
}

// InstallAPIGroup makes the server serve the API group from the given storage. The keys of
// storage are the names of resources and subresources. encoded is how many bytes of hosts' JSON
// may be kept for lists. The server is ready for PrepareRun then.
func InstallAPIGroup(server *genericapiserver.GenericAPIServer, storage map[string]rest.Storage, encoded int64) error {
	group := genericapiserver.NewDefaultAPIGroupInfo(v1alpha1.GroupName, Scheme, runtime.NewParameterCodec(Scheme), Codecs)
	group.NegotiatedSerializer = newJSONAndYAML(group.NegotiatedSerializer, encoded)
	group.VersionedResourcesStorageMap[v1alpha1.SchemeGroupVersion.Version] = storage
	return server.InstallAPIGroup(&group)
}

// knowsFrontProxy returns an error until the server can authenticate kube-apiserver's front
// proxy. The certificate authority and the header names are read from a ConfigMap some time
// after the start. Until then, every request through the aggregation layer would be
// answered 401.
func knowsFrontProxy(proxy *authenticatorfactory.RequestHeaderConfig) error {
	if len(proxy.CAContentProvider.CurrentCABundleContent()) == 0 || len(proxy.UsernameHeaders.Value()) == 0 {
		return errors.New("the certificate authority and the headers of the front proxy (ConfigMap kube-system/extension-apiserver-authentication) are not known yet")
	}
	return nil
}

// jsonAndYAML does not offer protobuf, because the types of this API do not support it. A
// client that prefers protobuf gets JSON, as it does from a CRD, instead of a 406.
type jsonAndYAML struct {
	runtime.NegotiatedSerializer
	offered []runtime.SerializerInfo
}

func newJSONAndYAML(stock runtime.NegotiatedSerializer, encoded int64) jsonAndYAML {
	s := jsonAndYAML{NegotiatedSerializer: stock}
	for _, info := range stock.SupportedMediaTypes() {
		switch info.MediaType {
		case runtime.ContentTypeJSON:
			info.Serializer = newHostListEncoder(info.Serializer, encoded)
			s.offered = append(s.offered, info)
		case runtime.ContentTypeYAML:
			s.offered = append(s.offered, info)
		}
	}
	return s
}

func (s jsonAndYAML) SupportedMediaTypes() []runtime.SerializerInfo { return s.offered }
