// SPDX-License-Identifier: Apache-2.0

package baremetalhost

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/store"
)

// HostChanger changes the spec and metadata of recorded hosts.
type HostChanger interface {
	// Change calls change with the latest version of the host, stores the result, and returns
	// what was written. If another client has written the host meanwhile, change is called again.
	// With dryRun, nothing is stored.
	Change(ctx context.Context, namespace, name string, dryRun bool, change func(*metal3.BareMetalHost) error) (*metal3.BareMetalHost, error)
}

// HostChangers are the two ways in which an action changes its host.
type HostChangers struct {
	// User makes the changes that the user has asked for. They go through admission.
	User HostChanger
	// Own restores the host after an action has failed, or cleans up after it. These changes
	// bypass admission, so that no policy can prevent them.
	Own HostChanger
}

// Nodes reads the nodes of hosts, and knows whose they are.
type Nodes interface {
	// WhyUnproven says why nothing may be shown of a node that Ironic has just returned, or done with it; empty if it is the
	// host's, of which the status that names it is no proof. What it says is for the user of the host, and reveals nothing of a
	// node of others.
	WhyUnproven(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node) (why string, err error)
	// WhyUnconfirmable says why not even a person can confirm that the node is the host's; empty if one can.
	WhyUnconfirmable(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node) (why string, err error)
	// ObserveNode reads the host's node, records what it says, and returns it without passwords in its texts, also with an
	// error that says why it could not be recorded. The node is nil if it is none of the host's.
	ObserveNode(ctx context.Context, host *metal3.BareMetalHost) (*ironic.Node, error)
	// RedactPassword removes the password of the host's BMC from the texts of its node. After
	// an error, these texts must not be shown to anybody.
	RedactPassword(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node) error
	// Guard returns a context for requests to Ironic about the host, whose errors have no password in them.
	Guard(ctx context.Context, host *metal3.BareMetalHost) context.Context
}

// EventRecorder has events written about hosts. It never blocks.
type EventRecorder interface {
	// Requested reports that a user has requested something of a host.
	Requested(host *metal3.BareMetalHost, reason, message string)
}

// Sources is where actions read hosts and their nodes from.
type Sources struct {
	Hosts  store.Getter[*metal3.BareMetalHost]
	Ironic IronicOf
	Nodes  Nodes
	Events EventRecorder
}

// describedRequest is a request that says what it is for.
type describedRequest interface{ Describe() string }

// tell has an event written that names the user whose request has been carried out, so that nobody has to guess why a
// machine was rebooted. kind is that of the request.
func (s *Sources) tell(ctx context.Context, host *metal3.BareMetalHost, kind string, request runtime.Object) {
	what := cmp.Or(requested[kind], kind)
	if described, ok := request.(describedRequest); ok {
		what = described.Describe()
	}
	by := "A user"
	if user, known := genericapirequest.UserFrom(ctx); known {
		by = fmt.Sprintf("User %q", user.GetName())
	}
	s.Events.Requested(host, strings.TrimPrefix(kind, "Host")+"Requested", by+" has requested "+what)
}

// requested says what is requested by a request, by its kind; nothing of a kind that says so itself.
var requested = map[string]string{
	"HostBootDevice":  "a boot device for the next boot",
	"HostClean":       "clean steps",
	"HostIndicator":   "a change of its indicator light",
	"HostInspection":  "an inspection",
	"HostMaintenance": "a change of its maintenance",
	"HostNMI":         "an NMI",
	"HostPower":       "",
	"HostRebuild":     "that its image be written again",
	"HostRetry":       "another try of what has failed",
	"HostTakeover":    "that its node be taken over",
	"HostTransfer":    "",
}

// recordedHost returns the host as it is in etcd. It refuses one that a later version has recorded: whether a node is the host's, and
// what may be done with it, is decided from the record.
func (s *Sources) recordedHost(ctx context.Context, name string) (*metal3.BareMetalHost, error) {
	host, err := s.Hosts.Get(ctx, genericapirequest.NamespaceValue(ctx), name)
	if err != nil {
		return nil, readError(name, err)
	}
	return host, store.CheckEpoch(ctx, host)
}

// nodeOf reads the host's node from the Ironic that has it, which it returns, too, and redacts passwords in the node's texts.
// It refuses a node of which it is not proven that it is the host's, whether the host is paused or not: everything that is
// done with a node, or told of it, begins here.
func (s *Sources) nodeOf(ctx context.Context, host *metal3.BareMetalHost) (Ironic, *ironic.Node, error) {
	return s.nodeUnless(ctx, host, s.Nodes.WhyUnproven)
}

// nodeToTakeOver is nodeOf for a person who is about to confirm that the node is the host's.
func (s *Sources) nodeToTakeOver(ctx context.Context, host *metal3.BareMetalHost) (Ironic, *ironic.Node, error) {
	return s.nodeUnless(ctx, host, s.Nodes.WhyUnconfirmable)
}

func (s *Sources) nodeUnless(ctx context.Context, host *metal3.BareMetalHost, why func(context.Context, *metal3.BareMetalHost, *ironic.Node) (string, error)) (Ironic, *ironic.Node, error) {
	if host.Status.Provisioning.ID == "" {
		return nil, nil, conflict(host, fmt.Errorf("it is not registered in Ironic yet (provisioning state %q)%s", host.Status.Provisioning.State, errorSuffix(host)))
	}
	asked, err := s.Ironic(host)
	if err != nil {
		return nil, nil, nothingDone(host, err)
	}
	node, err := asked.GetNode(ctx, host.Status.Provisioning.ID)
	if ironic.IsNotFound(err) {
		return nil, nil, conflict(host, fmt.Errorf("%s has no node %s; wait until it is registered%s", ironicName(host), host.Status.Provisioning.ID, errorSuffix(host)))
	}
	if err != nil {
		if refused := refusalOf(host, err); refused != nil {
			return nil, nil, refused
		}
		return nil, nil, nothingDone(host, err)
	}
	refusal, err := why(ctx, host, node)
	switch {
	case err != nil:
		return nil, nil, readError(host.Name, err)
	case refusal != "":
		return nil, nil, conflict(host, errors.New(refusal))
	}
	if err := s.Nodes.RedactPassword(ctx, host, node); err != nil {
		// The texts must not be shown, but the action is possible all the same.
		node.LastError, node.MaintenanceReason = "withheld: "+err.Error(), ""
	}
	return asked, node, nil
}

// nodeAfter reads the node of the host once more, as an action has left it, and has it recorded: who watches the host need not wait
// for the next poll. The error says why the node cannot be shown.
func (s *Sources) nodeAfter(ctx context.Context, host *metal3.BareMetalHost) (*ironic.Node, error) {
	node, err := s.Nodes.ObserveNode(ctx, host)
	if node == nil {
		return nil, cmp.Or(err, errors.New("it is none of the host's"))
	}
	why, err := s.Nodes.WhyUnproven(ctx, host, node)
	if err == nil && why != "" {
		err = errors.New(why)
	}
	return node, err
}

// changeHost changes the latest version of host, unless change returns an error, and returns what was written. It returns a
// Conflict if that is another host, or has its node in another Ironic now.
func changeHost(ctx context.Context, hosts HostChanger, host *metal3.BareMetalHost, dryRun bool, change func(*metal3.BareMetalHost) error) (*metal3.BareMetalHost, error) {
	written, err := hosts.Change(ctx, host.Namespace, host.Name, dryRun, func(newest *metal3.BareMetalHost) error {
		if err := checkSame(host, newest); err != nil {
			return err
		}
		return change(newest)
	})
	return written, writeError(host.Name, err)
}

// undoChange undoes a change of host in its latest version, whichever Ironic has its node now. The error is a NotFound if host
// was deleted, also if another host has the same name now.
func undoChange(ctx context.Context, hosts HostChanger, host *metal3.BareMetalHost, undo func(*metal3.BareMetalHost)) error {
	ctx, cancel := undoContext(ctx)
	defer cancel()
	_, err := hosts.Change(ctx, host.Namespace, host.Name, false, func(newest *metal3.BareMetalHost) error {
		if newest.UID != host.UID {
			return apierrors.NewNotFound(metal3.Resource("baremetalhosts"), host.Name)
		}
		undo(newest)
		return nil
	})
	return writeError(host.Name, err)
}

// undoTimeout bounds the attempt to undo a change of a host.
const undoTimeout = 5 * time.Second

// undoContext returns the context for undoing a change of a host. It does not end with the
// request, whose client may have disconnected.
func undoContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
}
