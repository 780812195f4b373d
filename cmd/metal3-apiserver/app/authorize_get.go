// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"net/http"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// reviewGetsOfHostsOnce has a GET of a host that comes through kube-apiserver authorized by one
// SubjectAccessReview for all hosts of the namespace, if that allows it. The delegated authorizer
// remembers reviews by name, so that each GET of another host would wait for a review of its own,
// which takes about a third as long as Ironic takes to answer.
//
// This gives nobody more than before. kube-apiserver has authorized the very request, with the name
// of the host, before it passed it on; this server asks again so as not to depend on that. A client
// that connects directly is still reviewed by name, because an authorization webhook of the cluster
// may deny a single name, and has no opinion on a review without one.
func reviewGetsOfHostsOnce(config *genericapiserver.RecommendedConfig) {
	proxy := config.Authentication.RequestHeaderConfig
	if proxy == nil || config.Authentication.Authenticator == nil || config.Authorization.Authorizer == nil {
		return
	}
	config.Authentication.Authenticator = &frontProxyMarker{
		frontProxy: group.NewAuthenticatedGroupAdder(headerrequest.NewDynamicVerifyOptionsSecure(
			proxy.CAContentProvider.VerifyOptions, proxy.AllowedClientNames,
			proxy.UsernameHeaders, proxy.UIDHeaders, proxy.GroupHeaders, proxy.ExtraHeaderPrefixes)),
		Request: config.Authentication.Authenticator,
	}
	config.Authorization.Authorizer = &hostGetAuthorizer{config.Authorization.Authorizer}
}

// proxiedUser is a user whom kube-apiserver's front proxy has identified.
type proxiedUser struct{ user.Info }

// frontProxyMarker marks users whom the front proxy identifies, and all others, whom the authenticator
// that it embeds identifies.
type frontProxyMarker struct {
	frontProxy authenticator.Request
	authenticator.Request
}

// AuthenticateRequest identifies the user of a request.
func (m *frontProxyMarker) AuthenticateRequest(req *http.Request) (*authenticator.Response, bool, error) {
	response, ok, err := m.frontProxy.AuthenticateRequest(req)
	if err == nil && ok {
		marked := *response
		marked.User = proxiedUser{response.User}
		return &marked, true, nil
	}
	response, ok, err = m.Request.AuthenticateRequest(req) // it tells what is wrong
	if err != nil || !ok {
		return response, ok, err
	}
	marked := *response
	marked.User = directUser{response.User}
	return &marked, true, nil
}

// hostGetAuthorizer asks the authorizer that it embeds about all hosts of a namespace before it asks
// about a single one.
type hostGetAuthorizer struct{ authorizer.Authorizer }

// Authorize decides whether a request is allowed.
func (a *hostGetAuthorizer) Authorize(ctx context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
	if isProxiedGetOfHost(attributes) {
		if decision, reason, err := a.Authorizer.Authorize(ctx, withoutName{attributes}); err == nil && decision == authorizer.DecisionAllow {
			return decision, reason, nil
		}
	}
	return a.Authorizer.Authorize(ctx, attributes)
}

// ConditionsAwareAuthorize is Authorize: the delegated authorizer makes no conditions.
func (a *hostGetAuthorizer) ConditionsAwareAuthorize(ctx context.Context, attributes authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return authorizer.ConditionsAwareDecisionFromParts(a.Authorize(ctx, attributes))
}

func isProxiedGetOfHost(attributes authorizer.Attributes) bool {
	_, proxied := attributes.GetUser().(proxiedUser)
	return proxied && attributes.IsResourceRequest() && attributes.GetVerb() == "get" && attributes.GetName() != "" &&
		attributes.GetAPIGroup() == v1alpha1.GroupName && attributes.GetResource() == "baremetalhosts" && attributes.GetSubresource() == ""
}

// withoutName are the attributes of a request for all objects, which is what an empty name means
// in a SubjectAccessReview.
type withoutName struct{ authorizer.Attributes }

// GetName returns the empty name.
func (withoutName) GetName() string { return "" }
