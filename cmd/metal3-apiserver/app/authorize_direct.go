// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"net/http"
	"slices"
	"sync"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/authorization/path"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/util/flowcontrol"
)

// Whoever has a token of the cluster can connect to this server directly, without any right, and past the flow control of
// kube-apiserver, which refuses such requests without asking anybody. Here, each takes a SubjectAccessReview if it names something new,
// and flow control comes first and cannot know yet whether the namespace that a request names is the user's. So users who connect
// directly are nobody's tenants: the group directGroup has them share a small priority level of their own (flowschema-direct.yaml), and
// their reviews have a client, a cache and limits of their own.
const (
	// directGroup is the group of all users whom kube-apiserver's front proxy does not identify.
	directGroup = "metal3:direct"
	// directReviewsPerSecond and directReviewsBurst limit the reviews for all of them, for the sake of kube-apiserver. They are half of
	// what the delegated authorizer makes for others.
	directReviewsPerSecond = 100
	directReviewsBurst     = 200
	// directReviewsOfUser is how many authorizations of one of them are in progress at a time. The check whether a user may impersonate
	// another one comes even before flow control.
	directReviewsOfUser = 2
)

// directUser is a user who connects directly.
type directUser struct{ user.Info }

// GetGroups returns the groups of the user.
func (u directUser) GetGroups() []string {
	return append(slices.Clone(u.Info.GetGroups()), directGroup)
}

// reviewDirectUsersApart has those who connect directly authorized by an authorizer that shares nothing with that of others. It must be
// called after reviewGetsOfHostsOnce, which tells them apart.
func reviewDirectUsersApart(config *genericapiserver.RecommendedConfig, options *genericoptions.DelegatingAuthorizationOptions) error {
	if options == nil || config.Authentication.RequestHeaderConfig == nil || config.Authorization.Authorizer == nil {
		return nil
	}
	limit := flowcontrol.NewTokenBucketRateLimiter(directReviewsPerSecond, directReviewsBurst)
	limited, custom := *options, options.CustomRoundTripperFn
	limited.CustomRoundTripperFn = func(next http.RoundTripper) http.RoundTripper {
		if custom != nil {
			next = custom(next)
		}
		return limitedRoundTripper{next, limit}
	}
	var direct genericapiserver.AuthorizationInfo
	if err := limited.ApplyTo(&direct); err != nil {
		return err
	}
	paths, err := path.NewAuthorizer(options.AlwaysAllowPaths)
	if err != nil {
		return err
	}
	config.Authorization.Authorizer = &directAuthorizer{
		Authorizer: config.Authorization.Authorizer, direct: direct.Authorizer, users: map[string]*directTurns{},
		atOnce: []authorizer.Authorizer{authorizerfactory.NewPrivilegedGroups(options.AlwaysAllowGroups...), paths},
	}
	return nil
}

// limitedRoundTripper sends no more requests than a limit allows.
type limitedRoundTripper struct {
	http.RoundTripper
	limit flowcontrol.RateLimiter
}

// RoundTrip sends a request when the limit allows it.
func (t limitedRoundTripper) RoundTrip(request *http.Request) (*http.Response, error) {
	if err := t.limit.Wait(request.Context()); err != nil {
		return nil, err
	}
	return t.RoundTripper.RoundTrip(request)
}

// directAuthorizer authorizes users who connect directly with direct, and all others with the authorizer that it embeds.
type directAuthorizer struct {
	authorizer.Authorizer
	direct authorizer.Authorizer
	// atOnce decide without a review, and so without a turn: the kubelet's probes are anonymous, as a flood can be.
	atOnce []authorizer.Authorizer

	mu sync.Mutex
	// users has those who are being authorized, by name.
	users map[string]*directTurns
}

// directTurns are those of a user.
type directTurns struct {
	taken chan struct{} // has room for directReviewsOfUser
	count int           // of authorizations in progress and waiting
}

// Authorize decides whether a request is allowed.
func (a *directAuthorizer) Authorize(ctx context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
	if _, direct := attributes.GetUser().(directUser); !direct {
		return a.Authorizer.Authorize(ctx, attributes)
	}
	for _, known := range a.atOnce {
		if decision, reason, err := known.Authorize(ctx, attributes); err == nil && decision == authorizer.DecisionAllow {
			return decision, reason, nil
		}
	}
	done, err := a.await(ctx, attributes.GetUser().GetName())
	if err != nil {
		return authorizer.DecisionNoOpinion, "", err
	}
	defer done()
	return a.direct.Authorize(ctx, attributes)
}

// ConditionsAwareAuthorize is Authorize: the delegated authorizer makes no conditions.
func (a *directAuthorizer) ConditionsAwareAuthorize(ctx context.Context, attributes authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return authorizer.ConditionsAwareDecisionFromParts(a.Authorize(ctx, attributes))
}

// await waits for a turn of a user, which ends with done.
func (a *directAuthorizer) await(ctx context.Context, name string) (done func(), err error) {
	a.mu.Lock()
	turns := a.users[name]
	if turns == nil {
		turns = &directTurns{taken: make(chan struct{}, directReviewsOfUser)}
		a.users[name] = turns
	}
	turns.count++
	a.mu.Unlock()
	leave := func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if turns.count--; turns.count == 0 {
			delete(a.users, name)
		}
	}
	select {
	case turns.taken <- struct{}{}:
		return func() { <-turns.taken; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
