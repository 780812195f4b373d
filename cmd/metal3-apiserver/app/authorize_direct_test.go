// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"
	fcrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/yaml"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

var (
	directly = directUser{&user.DefaultInfo{Name: "mallory", Groups: []string{user.AllAuthenticated}}}
	proxied  = proxiedUser{&user.DefaultInfo{Name: "alice", Groups: []string{user.AllAuthenticated}}}
)

// TestWhoIsDirect: who is not identified by the front proxy has the group, and keeps the others.
func TestWhoIsDirect(t *testing.T) {
	as := func(u user.Info, ok bool) authenticator.Request {
		return authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
			return &authenticator.Response{User: u}, ok, nil
		})
	}
	carol := &user.DefaultInfo{Name: "carol", Groups: []string{"a", "b"}}
	for name, tt := range map[string]struct {
		marker frontProxyMarker
		want   []string
	}{
		"proxied": {frontProxyMarker{as(carol, true), as(nil, false)}, []string{"a", "b"}},
		"direct":  {frontProxyMarker{as(nil, false), as(carol, true)}, []string{"a", "b", directGroup}},
	} {
		response, ok, err := tt.marker.AuthenticateRequest(httptest.NewRequest("GET", "/", nil))
		if err != nil || !ok || !slices.Equal(response.User.GetGroups(), tt.want) || response.User.GetName() != "carol" {
			t.Errorf("%s: %+v, %v, %v, want the groups %v", name, response, ok, err, tt.want)
		}
	}
	if _, ok, _ := (&frontProxyMarker{as(nil, false), as(nil, false)}).AuthenticateRequest(httptest.NewRequest("GET", "/", nil)); ok {
		t.Error("somebody whom nobody knows is authenticated")
	}
}

// getOf are the attributes of a GET of a host of a name that nobody has asked for before.
func getOf(u user.Info, name string) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{
		User: u, ResourceRequest: true, Verb: "get", APIGroup: v1alpha1.GroupName, Resource: "hardwaredata", Namespace: "victims", Name: name,
	}
}

// TestReviewsOfDirectUsers: while kube-apiserver does not answer the reviews of those who connect directly, others get a hundred of
// theirs. Of one user, it has two at a time, for which probes do not wait.
func TestReviewsOfDirectUsers(t *testing.T) {
	var inProgress atomic.Int32
	arrived, release := make(chan string, 1000), make(chan struct{})
	kube := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review authorizationv1.SubjectAccessReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Error(err)
		}
		if slices.Contains(review.Spec.Groups, directGroup) {
			inProgress.Add(1)
			arrived <- review.Spec.User
			<-release
			inProgress.Add(-1)
		}
		review.Status.Allowed = true
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(review); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(kube.Close)
	options := genericoptions.NewDelegatingAuthorizationOptions()
	options.ClientTimeout = 0 // reviews wait until the test lets them go on
	options.RemoteKubeConfigFile = kubeconfigOf(t, kube.Listener.Addr().String())
	config := &genericapiserver.RecommendedConfig{}
	if err := options.ApplyTo(&config.Authorization); err != nil {
		t.Fatal(err)
	}
	config.Authentication.RequestHeaderConfig = &authenticatorfactory.RequestHeaderConfig{}
	if err := reviewDirectUsersApart(config, options); err != nil {
		t.Fatal(err)
	}
	all := config.Authorization.Authorizer.(*directAuthorizer)

	const users = 3
	mallory := func(i int) user.Info { return directUser{&user.DefaultInfo{Name: fmt.Sprint("mallory-", i)}} }
	var waiting sync.WaitGroup
	var allowed atomic.Int32
	for i := range 2 * users * directReviewsOfUser {
		waiting.Go(func() {
			if decision, _, _ := all.Authorize(t.Context(), getOf(mallory(i%users), fmt.Sprint(i))); decision == authorizer.DecisionAllow {
				allowed.Add(1)
			}
		})
	}
	of := map[string]int{}
	for range users * directReviewsOfUser {
		of[<-arrived]++
	}
	for i := range 100 {
		if decision, _, err := all.Authorize(t.Context(), getOf(proxied, fmt.Sprint(i))); decision != authorizer.DecisionAllow || err != nil {
			t.Fatalf("review %d of another user: %v, %v", i, decision, err)
		}
	}
	if n := inProgress.Load(); n != users*directReviewsOfUser {
		t.Errorf("%d reviews of direct users are in progress, not %d", n, users*directReviewsOfUser)
	}
	for name, n := range of {
		if n != directReviewsOfUser {
			t.Errorf("%d reviews of %s are in progress, not %d", n, name, directReviewsOfUser)
		}
	}
	probe := authorizer.AttributesRecord{User: mallory(0), Verb: "get", Path: "/livez"}
	if decision, _, err := all.Authorize(t.Context(), probe); decision != authorizer.DecisionAllow || err != nil {
		t.Errorf("a probe by a user who has no turn: %v, %v", decision, err)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, _, err := all.Authorize(gone, getOf(mallory(0), "late")); !errors.Is(err, context.Canceled) {
		t.Errorf("who does not wait for a turn any more gets %v", err)
	}
	close(release)
	waiting.Wait()
	if n := allowed.Load(); n != 2*users*directReviewsOfUser {
		t.Errorf("%d requests of direct users are allowed, not all", n)
	}
	if len(all.users) != 0 {
		t.Errorf("%d users are remembered", len(all.users))
	}
}

// TestRateOfDirectReviews: all users who connect directly together get no more reviews than the limit; others get theirs.
func TestRateOfDirectReviews(t *testing.T) {
	limit := &countingLimiter{left: 5}
	sent := 0
	transport := limitedRoundTripper{roundTripperFunc(func(*http.Request) (*http.Response, error) { sent++; return &http.Response{}, nil }), limit}
	for range 20 {
		_, _ = transport.RoundTrip(httptest.NewRequest("POST", "/", nil))
	}
	if sent != 5 {
		t.Errorf("%d requests are sent, where 5 are allowed", sent)
	}
}

// TestDirectFloodInFlowControl: those who connect directly fill their own priority level, by the manifests, and no request of a tenant
// waits for one of theirs, although they name his namespace.
func TestDirectFloodInFlowControl(t *testing.T) {
	var objects []runtime.Object
	for pattern, object := range map[string]func() runtime.Object{
		"prioritylevelconfiguration*.yaml": func() runtime.Object { return &flowcontrolv1.PriorityLevelConfiguration{} },
		"flowschema*.yaml":                 func() runtime.Object { return &flowcontrolv1.FlowSchema{} },
	} {
		paths, err := filepath.Glob(filepath.Join("../../../artifacts/apiservice/base", pattern))
		if err != nil || len(paths) == 0 {
			t.Fatalf("no manifests %s: %v", pattern, err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			obj := object()
			if err := yaml.UnmarshalStrict(text, obj); err != nil {
				t.Fatal(path, err)
			}
			objects = append(objects, obj)
		}
	}
	client := fake.NewClientset(objects...)
	factory := informers.NewSharedInformerFactory(client, 0)
	control := utilflowcontrol.New(factory, client.FlowcontrolV1(), 600)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	factory.Start(ctx.Done())
	var running sync.WaitGroup
	t.Cleanup(running.Wait)
	t.Cleanup(cancel)
	running.Go(func() {
		if err := control.Run(ctx.Done()); err != nil {
			t.Error(err)
		}
	})

	// handle has a request of a user wait for its turn, and returns its priority level, and whether it had a turn.
	handle := func(ctx context.Context, u user.Info, name string, execute func()) (level string, executed bool) {
		digest := utilflowcontrol.RequestDigest{User: u, RequestInfo: &genericapirequest.RequestInfo{
			IsResourceRequest: true, Verb: "get", APIGroup: v1alpha1.GroupName, APIVersion: "v1alpha1", Resource: "baremetalhosts", Namespace: "victims", Name: name,
			Path: "/apis/metal3.io/v1alpha1/namespaces/victims/baremetalhosts/" + name,
		}}
		control.Handle(ctx, digest, func(_ *flowcontrolv1.FlowSchema, pl *flowcontrolv1.PriorityLevelConfiguration, _ string) {
			level = pl.Name
		},
			func() fcrequest.WorkEstimate { return fcrequest.WorkEstimate{InitialSeats: 1} }, func(bool) {}, func() { executed = true; execute() })
		return level, executed
	}
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 5*time.Minute, true, func(context.Context) (bool, error) {
		level, _ := handle(ctx, proxied, "x", func() {})
		return level == "metal3", nil
	})
	if err != nil {
		t.Fatal("the priority level of tenants is not used")
	}

	if level, _ := handle(ctx, directly, "x", func() {}); level != "metal3-direct" {
		t.Errorf("those who connect directly are in the priority level %s", level)
	}

	// More than all queues of the tenants' level hold for a namespace, and than it has seats.
	const flood = 2000
	release, executing, ended := make(chan struct{}), make(chan struct{}, flood), make(chan bool, flood)
	var floods sync.WaitGroup
	defer floods.Wait()
	defer close(release)
	for i := range flood {
		floods.Go(func() {
			_, executed := handle(ctx, directly, fmt.Sprint(i), func() { executing <- struct{}{}; <-release })
			ended <- executed
		})
	}
	<-executing
	for range flood / 2 { // these are refused, as too many are waiting
		if <-ended {
			t.Fatal("a request of the flood had its turn and ended")
		}
	}
	for i := range 100 {
		if level, executed := handle(ctx, proxied, fmt.Sprint(i), func() {}); !executed {
			t.Fatalf("request %d of the tenant is refused in the priority level %s", i, level)
		}
	}
	if n := len(executing) + 1; n > 30 {
		t.Errorf("%d requests of the flood are executed at a time", n)
	}
}

type roundTripperFunc func(*http.Request) (*http.Response, error)

func (f roundTripperFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// countingLimiter allows a number of requests.
type countingLimiter struct{ left int }

func (l *countingLimiter) TryAccept() bool { l.left--; return l.left >= 0 }
func (l *countingLimiter) Accept()         {}
func (l *countingLimiter) Stop()           {}
func (l *countingLimiter) QPS() float32    { return 0 }
func (l *countingLimiter) Wait(context.Context) error {
	if !l.TryAccept() {
		return context.DeadlineExceeded
	}
	return nil
}
