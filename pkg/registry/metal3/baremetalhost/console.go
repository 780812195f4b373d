// SPDX-License-Identifier: Apache-2.0

package baremetalhost

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/filters"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/klog/v2"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/baremetalhost/console"
)

// ConsoleOpener opens the serial console of a node.
type ConsoleOpener interface {
	Enter(options console.Options) (*console.Place, error)
	Open(ctx context.Context, node console.Node, place *console.Place) (*console.Connection, error)
}

// consoleREST serves baremetalhosts/console: a WebSocket in the protocol of pods/attach.
type consoleREST struct {
	Sources
	consoles   ConsoleOpener
	authorizer authorizer.Authorizer
}

// NewConsoleREST returns baremetalhosts/console.
func NewConsoleREST(sources Sources, consoles ConsoleOpener, authorizer authorizer.Authorizer) rest.Storage {
	return &consoleREST{sources, consoles, authorizer}
}

var _ rest.Connecter = &consoleREST{}

// New returns empty options.
func (*consoleREST) New() runtime.Object { return &metal3.HostConsoleOptions{} }

// Destroy does nothing: consoles are closed by their owner.
func (*consoleREST) Destroy() {}

// ConnectMethods returns the methods of a connection. A WebSocket begins with a GET. POST is there so
// that the verb of the permission, create, shows in discovery, as it does for pods/attach.
func (*consoleREST) ConnectMethods() []string { return []string{http.MethodGet, http.MethodPost} }

// NewConnectOptions returns the empty query parameters.
func (*consoleREST) NewConnectOptions() (runtime.Object, bool, string) {
	return &metal3.HostConsoleOptions{}, false, ""
}

// Connect returns the handler of the WebSocket. It opens the console before the upgrade, so that a
// client gets a Status if it cannot be opened.
func (r *consoleREST) Connect(ctx context.Context, name string, obj runtime.Object, responder rest.Responder) (http.Handler, error) {
	options, ok := obj.(*metal3.HostConsoleOptions)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not HostConsoleOptions: %T", obj))
	}
	if err := r.checkMayCreate(ctx, name); err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if err := checkIsConsoleProtocol(req); err != nil {
			responder.Error(apierrors.NewBadRequest(err.Error()))
			return
		}
		place, err := r.enter(ctx, name, options)
		if err != nil {
			responder.Error(err)
			return
		}
		defer place.Leave()
		connection, err := r.open(ctx, name, place)
		if err != nil {
			responder.Error(err)
			return
		}
		defer connection.Close()
		socket, err := upgrade(w, req, responder)
		if err != nil {
			return // the responder has said why
		}
		relay(ctx, socket, connection)
	}), nil
}

// checkMayCreate returns an error if the user must not create consoles. The request of a WebSocket
// is a GET, which was authorized with the verb get; but who may only read must not be able to type
// into a machine. pods/exec and pods/attach ask in the same way.
func (r *consoleREST) checkMayCreate(ctx context.Context, name string) error {
	attributes, err := filters.GetAuthorizerAttributes(ctx)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	record, ok := attributes.(*authorizer.AttributesRecord)
	if !ok {
		return apierrors.NewInternalError(fmt.Errorf("unexpected attributes: %T", attributes))
	}
	create := *record
	create.Verb = "create"
	decision, reason, err := r.authorizer.Authorize(ctx, create)
	if decision == authorizer.DecisionAllow {
		return nil
	}
	if err != nil {
		klog.FromContext(ctx).Error(err, "Whether a user may create consoles is not known")
	}
	return apierrors.NewForbidden(metal3.Resource("baremetalhosts/console"), name,
		fmt.Errorf("a console needs the verb create on baremetalhosts/console, too: %s", reason))
}

// consoleLimitRetry is when it is worth asking again for a place. Consoles last for minutes.
const consoleLimitRetry = 30 * time.Second

// enter takes a place for a connection to the console of a host.
func (r *consoleREST) enter(ctx context.Context, name string, options *metal3.HostConsoleOptions) (*console.Place, error) {
	userName := "somebody"
	if user, ok := genericapirequest.UserFrom(ctx); ok {
		userName = user.GetName()
	}
	place, err := r.consoles.Enter(console.Options{
		User: userName, Namespace: genericapirequest.NamespaceValue(ctx), Name: name, Force: options.Force, Share: options.Share,
	})
	if err != nil {
		return nil, apierrors.NewTooManyRequests(fmt.Sprintf("baremetalhost %q: %v", name, err), int(consoleLimitRetry.Seconds()))
	}
	return place, nil
}

// open opens the console of a host.
func (r *consoleREST) open(ctx context.Context, name string, place *console.Place) (*console.Connection, error) {
	host, err := r.recordedHost(ctx, name)
	if err != nil {
		return nil, err
	}
	ctx = r.Nodes.Guard(ctx, host)
	if err := checkMachineIsOwn(host); err != nil {
		return nil, err
	}
	nodeCtx, cancel := context.WithTimeout(ctx, actionTimeout)
	defer cancel()
	_, node, err := r.nodeOf(nodeCtx, host)
	if err != nil {
		return nil, err
	}
	connection, err := r.consoles.Open(ironic.WithTenant(ctx, host.Namespace), console.Node{Ironic: host.Status.Record.Ironic, UUID: node.UUID}, place)
	var inUse *console.InUseError
	var unsupported *console.UnsupportedError
	var broken *console.BrokenError
	switch {
	case err == nil:
		return connection, nil
	case errors.As(err, &inUse), errors.As(err, &unsupported):
		return nil, conflict(host, err)
	case errors.As(err, &broken):
		return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("baremetalhost %q: %v", name, err))
	}
	if refused := refusalOf(host, err); refused != nil {
		return nil, refused
	}
	return nil, outcomeUnknown(host, err, "connect again")
}
