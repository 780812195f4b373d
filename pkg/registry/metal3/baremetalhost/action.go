package baremetalhost

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// actionTimeout bounds an action. Ironic answers 202 as soon as it has the node's
// lock, which it tries to get for about two seconds; nobody waits for hardware.
const actionTimeout = 10 * time.Second

// request is the object of an action, in the form of TokenRequest and Eviction: its
// spec says what shall be done, its status what came of it.
type request interface {
	runtime.Object
	metav1.Object
}

// requestKind is a kind of request. Embedded in the storage of a subresource, it is
// the part of it that does nothing to the host.
type requestKind[R request] struct {
	kind       string
	newRequest func() R
	// resetStatus replaces the status, which a client may have sent along.
	resetStatus func(R)
	// validate checks the spec; nil if nothing can be wrong with it.
	validate func(R) field.ErrorList
}

// New returns an empty request.
func (k requestKind[R]) New() runtime.Object { return k.newRequest() }

// Destroy has nothing to destroy.
func (requestKind[R]) Destroy() {}

// ConvertToTable prints name and age.
func (requestKind[R]) ConvertToTable(ctx context.Context, obj runtime.Object, options runtime.Object) (*metav1.Table, error) {
	return rest.NewDefaultTableConvertor(metal3.Resource("baremetalhosts")).ConvertToTable(ctx, obj, options)
}

// accept is what every action begins with, before anything is looked up: the body
// must be about the host in the URL, and the users' admission and our validation
// must agree to it.
func (k requestKind[R]) accept(ctx context.Context, name string, obj runtime.Object, createValidation rest.ValidateObjectFunc) (R, error) {
	var none R
	request, ok := obj.(R)
	if !ok {
		return none, apierrors.NewBadRequest(fmt.Sprintf("not a %s: %T", k.kind, obj))
	}
	if named := request.GetName(); named != "" && named != name {
		return none, apierrors.NewBadRequest(fmt.Sprintf("the %s names host %q, the URL host %q: leave metadata.name out, or make them agree", k.kind, named, name))
	}
	request.SetName(name)
	request.SetNamespace(genericapirequest.NamespaceValue(ctx))
	request.SetManagedFields(nil) // a request is not stored, so nobody owns its fields
	k.resetStatus(request)
	if createValidation != nil {
		if err := createValidation(ctx, request.DeepCopyObject()); err != nil {
			return none, err
		}
	}
	if k.validate != nil {
		if errs := k.validate(request); len(errs) > 0 {
			return none, apierrors.NewInvalid(metal3.Kind(k.kind), name, errs)
		}
	}
	return request, nil
}

// action is an action that Ironic does on the node of a host: what it does not have
// in common with the others.
type action[R request] interface {
	// checkHost refuses what the host itself does not allow. Ironic is not asked then.
	checkHost(host *metal3.BareMetalHost, request R) error
	// checkNode refuses what the state of the node does not allow.
	checkNode(host *metal3.BareMetalHost, node *ironic.Node, request R) error
	// write writes into the host what the action needs there, in the name of the user, and
	// returns the host as it is then. With dryRun, it only finds out whether that is allowed.
	write(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node, request R, dryRun bool) (written *metal3.BareMetalHost, err error)
	// act hands the action to Ironic and returns without waiting for hardware. It is
	// not called for a dry run. host is as it was before write.
	act(ctx context.Context, host, written *metal3.BareMetalHost, node *ironic.Node, request R) error
	// describe writes into the status of the request what Ironic says of the node.
	describe(request R, host *metal3.BareMetalHost, node *ironic.Node)
}

// actionREST serves the subresource of an action: POST does it.
type actionREST[R request] struct {
	requestKind[R]
	Sources
	action action[R]
}

// Create does the action, unless the request is a dry run.
func (r *actionREST[R]) Create(ctx context.Context, name string, obj runtime.Object, createValidation rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	request, err := r.accept(ctx, name, obj, createValidation)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, actionTimeout)
	defer cancel()
	host, err := r.recordedHost(ctx, name)
	if err != nil {
		return nil, err
	}
	if err := checkMachineIsOwn(host); err != nil {
		return nil, err
	}
	if err := r.action.checkHost(host, request); err != nil {
		return nil, err
	}
	node, err := r.nodeOf(ctx, host)
	if err != nil {
		return nil, err
	}
	if err := r.action.checkNode(host, node, request); err != nil {
		return nil, err
	}
	dryRun := dryrun.IsDryRun(options.DryRun)
	written, err := r.action.write(ctx, host, node, request, dryRun)
	if err != nil {
		return nil, err
	}
	if !dryRun {
		if err := r.action.act(ctx, host, written, node, request); err != nil {
			return nil, err
		}
		// What the action changed is recorded for everybody, and shown to this caller. It
		// is too late for an error: Ironic has accepted.
		_ = r.Refresher.RefreshHost(ctx, host.Namespace, name)
		if after, err := r.nodeOf(ctx, host); err == nil {
			node = after
		}
	}
	r.action.describe(request, host, node)
	return request, nil
}

// checkMachineIsOwn refuses actions where the host's node leads to a machine that may be
// somebody else's.
func checkMachineIsOwn(host *metal3.BareMetalHost) error {
	held := meta.FindStatusCondition(host.Status.Conditions, metal3.HeldCondition)
	if held == nil {
		return nil
	}
	switch held.Reason {
	case metal3.NodeOfAnotherHostReason, metal3.NodeOfAnotherClusterReason, metal3.AnotherBMCReason:
		return conflict(host, errors.New(held.Message))
	}
	return nil
}

// readableActionREST is an actionREST whose GET tells how far Ironic is.
type readableActionREST[R request] struct{ actionREST[R] }

// Get tells what Ironic says now.
func (r *readableActionREST[R]) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, actionTimeout)
	defer cancel()
	host, err := r.recordedHost(ctx, name)
	if err != nil {
		return nil, err
	}
	node, err := r.nodeOf(ctx, host)
	if err != nil {
		return nil, err
	}
	request := r.newRequest()
	request.SetName(name)
	request.SetNamespace(host.Namespace)
	r.action.describe(request, host, node)
	return request, nil
}
