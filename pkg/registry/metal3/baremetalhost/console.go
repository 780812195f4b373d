package baremetalhost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/filters"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/klog/v2"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/baremetalhost/console"
)

// ConsoleOpener opens the serial console of a node.
type ConsoleOpener interface {
	Open(ctx context.Context, node string, options console.Options) (*console.Connection, error)
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

// The channels of the WebSocket, as for pods/attach.
const (
	stdinChannel = iota
	stdoutChannel
	_ // stderr
	errorChannel
	_ // the size of the terminal, which a serial line does not have
)

// consoleProtocols are the protocols of pods/attach, in their binary form.
func consoleProtocols() map[string]wsstream.ChannelProtocolConfig {
	protocol := wsstream.ChannelProtocolConfig{Binary: true, Channels: []wsstream.ChannelType{
		wsstream.ReadChannel, wsstream.WriteChannel, wsstream.IgnoreChannel, wsstream.WriteChannel, wsstream.IgnoreChannel,
	}}
	return map[string]wsstream.ChannelProtocolConfig{"v5.channel.k8s.io": protocol, "v4.channel.k8s.io": protocol, "channel.k8s.io": protocol}
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
		if !wsstream.IsWebSocketRequest(req) {
			responder.Error(apierrors.NewBadRequest("a console is a WebSocket: connect with GET and the headers of an upgrade, as kubectl bmh console does"))
			return
		}
		connection, err := r.open(ctx, name, options)
		if err != nil {
			responder.Error(err)
			return
		}
		defer connection.Close()
		relay(w, req, connection)
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

// open opens the console of a host.
func (r *consoleREST) open(ctx context.Context, name string, options *metal3.HostConsoleOptions) (*console.Connection, error) {
	host, err := r.recordedHost(ctx, name)
	if err != nil {
		return nil, err
	}
	if err := checkMachineIsOwn(host); err != nil {
		return nil, err
	}
	nodeCtx, cancel := context.WithTimeout(ctx, actionTimeout)
	defer cancel()
	node, err := r.nodeOf(nodeCtx, host)
	if err != nil {
		return nil, err
	}
	userName := "somebody"
	if user, ok := genericapirequest.UserFrom(ctx); ok {
		userName = user.GetName()
	}
	connection, err := r.consoles.Open(ctx, node.UUID, console.Options{User: userName, Force: options.Force, Share: options.Share})
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

// sendTimeout bounds how long a client may take to receive a piece of output.
const sendTimeout = 20 * time.Second

// relay upgrades the request to a WebSocket, and passes on what is typed and shown until one side
// ends.
func relay(w http.ResponseWriter, req *http.Request, connection *console.Connection) {
	socket := wsstream.NewConn(consoleProtocols())
	_, channels, err := socket.Open(w, req)
	if err != nil {
		klog.FromContext(req.Context()).V(2).Info("A console was not upgraded to a WebSocket", "err", err)
		return
	}
	defer socket.Close()
	typing := make(chan struct{})
	defer func() { <-typing }()
	defer channels[stdinChannel].Close()
	go func() {
		defer close(typing)
		_, _ = io.Copy(connection, channels[stdinChannel]) // an error shows as the end of the connection
		connection.Close()
	}()
	show := func(output []byte) error {
		socket.SetWriteDeadline(sendTimeout)
		_, err := channels[stdoutChannel].Write(output)
		return err
	}
	for {
		select {
		case output := <-connection.Output():
			if show(output) != nil {
				return // the client is gone
			}
		case <-connection.Ended():
			for len(connection.Output()) > 0 { // what came before the end; nothing is added after it
				if show(<-connection.Output()) != nil {
					return
				}
			}
			socket.SetWriteDeadline(sendTimeout)
			_ = json.NewEncoder(channels[errorChannel]).Encode(endOf(connection.Err()))
			return
		}
	}
}

// endOf returns the Status with which a console ends.
func endOf(reason error) *metav1.Status {
	if reason == nil {
		return &metav1.Status{Status: metav1.StatusSuccess}
	}
	return &metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonUnknown, Message: reason.Error()}
}
