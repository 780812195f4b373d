// Package apiserver assembles the aggregated API server from its scheme, the generic API
// server, and the API group.
package apiserver

import (
	"context"
	"errors"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/install"
	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/openapi"
	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/baremetalhost"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/hardwaredata"
)

var (
	// Scheme has every kind that the server serves twice: as v1alpha1, and with the same
	// Go type as the internal version.
	Scheme = runtime.NewScheme()
	// Codecs are the codecs of Scheme.
	Codecs = serializer.NewCodecFactory(Scheme)

	// externalScheme has only the external kinds. It is used for OpenAPI, which would show
	// clients a version named __internal if it were generated from Scheme.
	externalScheme = runtime.NewScheme()
)

func init() {
	install.Install(Scheme)
	if err := v1alpha1.AddToScheme(externalScheme); err != nil {
		panic(err) // a programming error, which would show at every start
	}
	for _, scheme := range []*runtime.Scheme{Scheme, externalScheme} {
		// The types with which the generic server itself answers.
		unversioned := schema.GroupVersion{Version: "v1"}
		metav1.AddToGroupVersion(scheme, unversioned)
		scheme.AddUnversionedTypes(unversioned,
			&metav1.Status{}, &metav1.APIVersions{}, &metav1.APIGroupList{}, &metav1.APIGroup{}, &metav1.APIResourceList{})
	}
}

// Live creates the Refresher that updates recorded hosts from Ironic. It is called when the
// store of hosts exists. The Refresher must stop when ctx ends.
type Live func(ctx context.Context, hosts *baremetalhost.Hosts) baremetalhost.Refresher

// ExtraConfig is the part of the configuration that is specific to this server.
type ExtraConfig struct {
	// Nodes are the nodes of Ironic, on which the actions act.
	Nodes baremetalhost.Nodes
	// Live creates the Refresher of the hosts.
	Live Live
}

// Config is the configuration of the server.
type Config struct {
	// Generic is the configuration of the generic API server.
	Generic *genericapiserver.RecommendedConfig
	// Extra is the part that is specific to this server.
	Extra ExtraConfig
}

// CompletedConfig is a complete Config, from which New creates a server.
type CompletedConfig struct{ *completedConfig }

type completedConfig struct {
	generic genericapiserver.CompletedConfig
	extra   *ExtraConfig
}

// AddOpenAPI configures OpenAPI v2 and v3. It must be called before the options are applied
// to the configuration.
func AddOpenAPI(config *genericapiserver.RecommendedConfig, version string) {
	namer := openapinamer.NewDefinitionNamer(externalScheme)
	config.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(openapi.GetOpenAPIDefinitions, namer)
	config.OpenAPIConfig.Info.Title, config.OpenAPIConfig.Info.Version = "metal3-apiserver", version
	config.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(openapi.GetOpenAPIDefinitions, namer)
	config.OpenAPIV3Config.Info.Title, config.OpenAPIV3Config.Info.Version = "metal3-apiserver", version
}

// Complete fills in the fields that are derived from others.
func (c *Config) Complete() CompletedConfig {
	buildHandlers := c.Generic.BuildHandlerChainFunc
	c.Generic.BuildHandlerChainFunc = func(api http.Handler, config *genericapiserver.Config) http.Handler {
		return finishDiscovery(buildHandlers(api, config))
	}
	return CompletedConfig{&completedConfig{c.Generic.Complete(), &c.Extra}}
}

// Server is the API server, ready to be prepared and run.
type Server struct {
	*genericapiserver.GenericAPIServer
	// Hosts gives the controller access to the recorded hosts.
	Hosts *baremetalhost.Hosts
	// HardwareData gives the controller access to the recorded hardware of hosts.
	HardwareData *hardwaredata.Records
}

// New returns a server with the API group installed. The Refresher that Live creates stops
// when ctx ends.
func (c completedConfig) New(ctx context.Context) (*Server, error) {
	server, err := c.generic.New("metal3-apiserver", genericapiserver.NewEmptyDelegate())
	if err != nil {
		return nil, err
	}
	if proxy := c.generic.Authentication.RequestHeaderConfig; proxy != nil {
		if err := server.AddReadyzChecks(healthz.NamedCheck("front-proxy", func(*http.Request) error { return knowsFrontProxy(proxy) })); err != nil {
			return nil, err
		}
	}
	store, err := baremetalhost.NewStore(Scheme, c.generic.RESTOptionsGetter)
	if err != nil {
		return nil, err
	}
	hosts := baremetalhost.NewHosts(store)
	kinds, err := metal3.NewKinds(Scheme, c.generic.RESTOptionsGetter)
	if err != nil {
		return nil, err
	}

	group := genericapiserver.NewDefaultAPIGroupInfo(v1alpha1.GroupName, Scheme, metav1.ParameterCodec, Codecs)
	group.NegotiatedSerializer = jsonAndYAML{group.NegotiatedSerializer}
	group.VersionedResourcesStorageMap[v1alpha1.SchemeGroupVersion.Version] = metal3.Storage(Scheme, store, c.extra.Live(ctx, hosts), c.extra.Nodes, kinds)
	if err := server.InstallAPIGroup(&group); err != nil {
		return nil, err
	}
	return &Server{GenericAPIServer: server, Hosts: hosts, HardwareData: kinds.HardwareData()}, nil
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
