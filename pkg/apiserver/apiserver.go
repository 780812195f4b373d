// Package apiserver puts the aggregated API server together: scheme, generic
// server, API group.
package apiserver

import (
	"errors"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/install"
	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/openapi"
	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

var (
	// Scheme knows every kind that the server serves, twice: as v1alpha1, and the
	// same Go types as the internal version.
	Scheme = runtime.NewScheme()
	// Codecs are the codecs of Scheme.
	Codecs = serializer.NewCodecFactory(Scheme)

	// published has the external kinds alone: OpenAPI made from Scheme would tell
	// clients of a version named __internal.
	published = runtime.NewScheme()
)

func init() {
	install.Install(Scheme)
	if err := v1alpha1.AddToScheme(published); err != nil {
		panic(err) // a programming error, seen at every start
	}
	for _, scheme := range []*runtime.Scheme{Scheme, published} {
		// What the generic server itself answers with.
		unversioned := schema.GroupVersion{Version: "v1"}
		metav1.AddToGroupVersion(scheme, unversioned)
		scheme.AddUnversionedTypes(unversioned,
			&metav1.Status{}, &metav1.APIVersions{}, &metav1.APIGroupList{}, &metav1.APIGroup{}, &metav1.APIResourceList{})
	}
}

// AddOpenAPI fills in what describes the API, v2 and v3. It must come before the
// options are applied to the configuration.
func AddOpenAPI(config *genericapiserver.RecommendedConfig, version string) {
	namer := openapinamer.NewDefinitionNamer(published)
	config.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(openapi.GetOpenAPIDefinitions, namer)
	config.OpenAPIConfig.Info.Title, config.OpenAPIConfig.Info.Version = "metal3-apiserver", version
	config.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(openapi.GetOpenAPIDefinitions, namer)
	config.OpenAPIV3Config.Info.Title, config.OpenAPIV3Config.Info.Version = "metal3-apiserver", version
}

// New returns a server that serves the API group from the storage of each of its
// resources, ready to be prepared and run.
func New(config genericapiserver.CompletedConfig, storage map[string]rest.Storage) (*genericapiserver.GenericAPIServer, error) {
	server, err := config.New("metal3-apiserver", genericapiserver.NewEmptyDelegate())
	if err != nil {
		return nil, err
	}
	if proxy := config.Authentication.RequestHeaderConfig; proxy != nil {
		if err := server.AddReadyzChecks(healthz.NamedCheck("front-proxy", func(*http.Request) error { return knowsFrontProxy(proxy) })); err != nil {
			return nil, err
		}
	}
	group := genericapiserver.NewDefaultAPIGroupInfo(v1alpha1.GroupName, Scheme, metav1.ParameterCodec, Codecs)
	group.NegotiatedSerializer = jsonAndYAML{group.NegotiatedSerializer}
	group.VersionedResourcesStorageMap[v1alpha1.SchemeGroupVersion.Version] = storage
	if err := server.InstallAPIGroup(&group); err != nil {
		return nil, err
	}
	return server, nil
}

// knowsFrontProxy is an error until the server can tell kube-apiserver's front proxy
// from anybody else: what it goes by is read from a ConfigMap some time after the
// start, and before that each request through the aggregation layer would be 401.
func knowsFrontProxy(proxy *authenticatorfactory.RequestHeaderConfig) error {
	if len(proxy.CAContentProvider.CurrentCABundleContent()) == 0 || len(proxy.UsernameHeaders.Value()) == 0 {
		return errors.New("the certificate authority and the headers of the front proxy (ConfigMap kube-system/extension-apiserver-authentication) are not known yet")
	}
	return nil
}

// jsonAndYAML offers no protobuf, which our types do not have: a client that
// prefers it gets JSON, as from a CRD, and not a 406.
type jsonAndYAML struct{ runtime.NegotiatedSerializer }

func (s jsonAndYAML) SupportedMediaTypes() []runtime.SerializerInfo {
	var offered []runtime.SerializerInfo
	for _, info := range s.NegotiatedSerializer.SupportedMediaTypes() {
		if info.MediaType == runtime.ContentTypeJSON || info.MediaType == runtime.ContentTypeYAML {
			offered = append(offered, info)
		}
	}
	return offered
}
