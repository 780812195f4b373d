// Package apiserver puts the aggregated API server together: scheme, generic
// server, API group.
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

// Live is what keeps recorded hosts in step with Ironic. It is made once the
// store exists, and ends with ctx.
type Live func(ctx context.Context, hosts *baremetalhost.Hosts) baremetalhost.Refresher

// ExtraConfig is what the generic server does not know.
type ExtraConfig struct {
	// Nodes is what the actions act on.
	Nodes baremetalhost.Nodes
	// Live makes the Refresher of the hosts.
	Live Live
}

// Config is the configuration of the server.
type Config struct {
	Generic *genericapiserver.RecommendedConfig
	Extra   ExtraConfig
}

// CompletedConfig is a Config that Complete has made ready for New.
type CompletedConfig struct{ *completedConfig }

type completedConfig struct {
	generic genericapiserver.CompletedConfig
	extra   *ExtraConfig
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

// Complete fills in what is derived.
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
	// Hosts are the recorded hosts, for the controller.
	Hosts *baremetalhost.Hosts
	// HardwareData is the recorded hardware of hosts, for the controller.
	HardwareData *hardwaredata.Records
}

// New installs the API group. ctx bounds the life of what Live makes.
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
	group.NegotiatedSerializer = newJSONAndYAML(group.NegotiatedSerializer)
	group.VersionedResourcesStorageMap[v1alpha1.SchemeGroupVersion.Version] = metal3.Storage(Scheme, store, c.extra.Live(ctx, hosts), c.extra.Nodes, kinds)
	if err := server.InstallAPIGroup(&group); err != nil {
		return nil, err
	}
	return &Server{GenericAPIServer: server, Hosts: hosts, HardwareData: kinds.HardwareData()}, nil
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
type jsonAndYAML struct {
	runtime.NegotiatedSerializer
	offered []runtime.SerializerInfo
}

func newJSONAndYAML(stock runtime.NegotiatedSerializer) jsonAndYAML {
	s := jsonAndYAML{NegotiatedSerializer: stock}
	for _, info := range stock.SupportedMediaTypes() {
		switch info.MediaType {
		case runtime.ContentTypeJSON:
			info.Serializer = newHostListEncoder(info.Serializer)
			s.offered = append(s.offered, info)
		case runtime.ContentTypeYAML:
			s.offered = append(s.offered, info)
		}
	}
	return s
}

func (s jsonAndYAML) SupportedMediaTypes() []runtime.SerializerInfo { return s.offered }
