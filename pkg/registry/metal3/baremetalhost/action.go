// SPDX-License-Identifier: Apache-2.0

package baremetalhost

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// actionTimeout bounds an action. Actions do not wait for hardware: Ironic answers 202 as soon as
// it has locked the node, which it attempts for about two seconds.
const actionTimeout = 10 * time.Second

// request is the object of an action, in the form of TokenRequest and Eviction: its spec says
// what to do, and its status what the outcome is.
type request interface {
	runtime.Object
	metav1.Object
}

// requestKind describes a kind of request. The storage of each subresource embeds one for
// everything that does not concern the host itself.
type requestKind[R request] struct {
	kind       string
	newRequest func() R
	// resetStatus replaces the status, because a client may have set it.
	resetStatus func(R)
	// validate checks the spec; nil if every spec is valid.
	validate func(R) field.ErrorList
}

// New returns an empty request.
func (k requestKind[R]) New() runtime.Object { return k.newRequest() }

// Destroy does nothing: requests are not stored.
func (requestKind[R]) Destroy() {}

// ConvertToTable returns a table with name and age.
func (requestKind[R]) ConvertToTable(ctx context.Context, obj runtime.Object, options runtime.Object) (*metav1.Table, error) {
	return rest.NewDefaultTableConvertor(metal3.Resource("baremetalhosts")).ConvertToTable(ctx, obj, options)
}

// accept checks a request before anything is read: it must name the host in the URL, if any, and
// pass admission and validation. Every action begins with it.
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
	request.SetManagedFields(nil) // not needed, because requests are not stored
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

// action is the specific part of an action that Ironic performs on the node of a host.
// actionREST calls its methods in the order in which they are declared.
type action[R request] interface {
	// checkHost returns an error if the host does not permit the action. Ironic has not been
	// asked for the node then.
	checkHost(host *metal3.BareMetalHost, request R) error
	// checkNode returns an error if the state of the node does not permit the action.
	checkNode(host *metal3.BareMetalHost, node *ironic.Node, request R) error
	// write makes the changes of the host that the action needs, on behalf of the user, and
	// returns the changed host. With dryRun, it only checks whether they are permitted. asked is the
	// Ironic that has the node.
	write(ctx context.Context, asked Ironic, host *metal3.BareMetalHost, node *ironic.Node, request R, dryRun bool) (written *metal3.BareMetalHost, err error)
	// act requests the action from the same Ironic, and returns without waiting for hardware. It is not
	// called for a dry run. host is the host before write, and written is the result of write.
	act(ctx context.Context, asked Ironic, host, written *metal3.BareMetalHost, node *ironic.Node, request R) error
	// describe sets the status of the request according to the node.
	describe(request R, host *metal3.BareMetalHost, node *ironic.Node)
}

// plainAction has the methods of an action that is always permitted unless the host is being
// deleted, and that changes nothing in the host. Actions embed it for the methods that they do not
// need.
type plainAction[R request] struct{}

func (plainAction[R]) checkHost(host *metal3.BareMetalHost, _ R) error { return checkNotDeleting(host) }

func (plainAction[R]) write(_ context.Context, _ Ironic, host *metal3.BareMetalHost, _ *ironic.Node, _ R, _ bool) (*metal3.BareMetalHost, error) {
	return host, nil
}

func (plainAction[R]) describe(R, *metal3.BareMetalHost, *ironic.Node) {}

// subresource is what the storages of all subresources have that are about a host's node.
type subresource[R request] struct {
	requestKind[R]
	Sources
	// bmcs is set if Ironic asks the BMC, or another server that may not answer, while the caller
	// waits.
	bmcs *BMCQueue
}

// withTimeout returns the context for serving a request.
func (s *subresource[R]) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx = ironic.WithQuestion(ctx, genericapirequest.NamespaceValue(ctx))
	if s.bmcs != nil {
		return context.WithTimeout(ctx, bmcTimeout)
	}
	return context.WithTimeout(ctx, actionTimeout)
}

// get returns a request without a spec, whose status read sets according to what Ironic says now.
func (s *subresource[R]) get(ctx context.Context, name string, read reader[R]) (runtime.Object, error) {
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()
	host, err := s.recordedHost(ctx, name)
	if err != nil {
		return nil, err
	}
	ctx = s.Nodes.Guard(ctx, host)
	if s.bmcs != nil {
		if err := checkMachineIsOwn(host); err != nil {
			return nil, err
		}
		leave, err := s.bmcs.enter(host)
		if err != nil {
			return nil, err
		}
		defer leave()
	}
	asked, node, err := s.nodeOf(ctx, host)
	if err != nil {
		return nil, err
	}
	request := s.newRequest()
	request.SetName(name)
	request.SetNamespace(host.Namespace)
	return request, read(ctx, asked, host, node, request)
}

// reader sets the status of a request according to what the Ironic that has the node says now.
type reader[R request] func(ctx context.Context, asked Ironic, host *metal3.BareMetalHost, node *ironic.Node, request R) error

// reportREST serves a subresource with GET alone.
type reportREST[R request] struct {
	subresource[R]
	read reader[R]
}

// Get returns what Ironic says now.
func (r *reportREST[R]) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	return r.get(ctx, name, r.read)
}

// actionREST serves the subresource of an action with POST.
type actionREST[R request] struct {
	subresource[R]
	action action[R]
}

func newActionREST[R request](kind requestKind[R], sources Sources, bmcs *BMCQueue, a action[R]) actionREST[R] {
	return actionREST[R]{subresource[R]{kind, sources, bmcs}, a}
}

// Create performs the action, or only checks it for a dry run.
func (r *actionREST[R]) Create(ctx context.Context, name string, obj runtime.Object, createValidation rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	request, err := r.accept(ctx, name, obj, createValidation)
	if err != nil {
		return nil, err
	}
	ctx, cancel := r.withTimeout(ctx)
	defer cancel()
	host, err := r.recordedHost(ctx, name)
	if err != nil {
		return nil, err
	}
	ctx = r.Nodes.Guard(ctx, host)
	if err := checkMachineIsOwn(host); err != nil {
		return nil, err
	}
	if err := r.action.checkHost(host, request); err != nil {
		return nil, err
	}
	if r.bmcs != nil {
		leave, err := r.bmcs.enter(host)
		if err != nil {
			return nil, err
		}
		defer leave()
	}
	asked, node, err := r.nodeOf(ctx, host)
	if err != nil {
		return nil, err
	}
	if err := r.action.checkNode(host, node, request); err != nil {
		return nil, err
	}
	dryRun := dryrun.IsDryRun(options.DryRun)
	written, err := r.action.write(ctx, asked, host, node, request, dryRun)
	if err != nil {
		return nil, err
	}
	if !dryRun {
		if err := r.action.act(ctx, asked, host, written, node, request); err != nil {
			return nil, err
		}
		r.tell(ctx, host, r.kind, request)
		// Errors are ignored, because Ironic has accepted the action already.
		if after, err := r.nodeAfter(ctx, host); err == nil {
			node = after
		}
	}
	r.action.describe(request, host, node)
	return request, nil
}

// checkMachineIsOwn returns an error if the host's node may not be the host's own.
func checkMachineIsOwn(host *metal3.BareMetalHost) error {
	if why := host.ForeignNode(); why != "" {
		return conflict(host, errors.New(why))
	}
	return nil
}

// readableActionREST is an actionREST that also serves GET.
type readableActionREST[R request] struct {
	actionREST[R]
	read reader[R]
}

func newReadableActionREST[R request](kind requestKind[R], sources Sources, bmcs *BMCQueue, a action[R], read reader[R]) *readableActionREST[R] {
	return &readableActionREST[R]{newActionREST(kind, sources, bmcs, a), read}
}

// Get returns what Ironic says now.
func (r *readableActionREST[R]) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	return r.get(ctx, name, r.read)
}

// describing returns the reader of an action that describes the node itself.
func describing[R request](a action[R]) reader[R] {
	return func(_ context.Context, _ Ironic, host *metal3.BareMetalHost, node *ironic.Node, request R) error {
		a.describe(request, host, node)
		return nil
	}
}
