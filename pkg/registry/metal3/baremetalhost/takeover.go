package baremetalhost

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// NodeTaker records that a person has confirmed that a node is a host's.
type NodeTaker interface {
	TakeOver(host *metal3.BareMetalHost, node *ironic.Node)
}

// HostRecorder records the status of hosts.
type HostRecorder interface {
	// Record writes the host, unless somebody else has written it since it was read.
	Record(ctx context.Context, host *metal3.BareMetalHost) (*metal3.BareMetalHost, error)
}

// takeoverREST serves baremetalhosts/takeover: POST confirms that a node is the host's.
// Nothing is asked of Ironic but what the node is now; the leader goes on from there.
type takeoverREST struct {
	requestKind[*metal3.HostTakeover]
	Sources
	taker    NodeTaker
	recorder HostRecorder
}

// NewTakeoverREST returns baremetalhosts/takeover.
func NewTakeoverREST(sources Sources, taker NodeTaker, recorder HostRecorder) rest.Storage {
	return &takeoverREST{
		requestKind: requestKind[*metal3.HostTakeover]{
			kind:        "HostTakeover",
			newRequest:  func() *metal3.HostTakeover { return &metal3.HostTakeover{} },
			resetStatus: func(r *metal3.HostTakeover) { r.Status = metal3.HostTakeoverStatus{} },
			validate: func(r *metal3.HostTakeover) field.ErrorList {
				if r.Spec.NodeUUID != "" {
					return nil
				}
				return field.ErrorList{field.Required(field.NewPath("spec", "nodeUUID"), "the UUID of the node, as status.provisioning.ID of the host has it")}
			},
		},
		Sources: sources, taker: taker, recorder: recorder,
	}
}

// Create confirms the node of the host.
func (r *takeoverREST) Create(ctx context.Context, name string, obj runtime.Object, createValidation rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	takeover, err := r.accept(ctx, name, obj, createValidation)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, actionTimeout)
	defer cancel()
	host, node, err := r.confirm(ctx, name, takeover.Spec.NodeUUID, dryrun.IsDryRun(options.DryRun))
	if err != nil {
		return nil, err
	}
	takeover.Status.Confirmed = host.Status.Takeover
	takeover.Status.Message = fmt.Sprintf("node %s is treated as the host's, and as its spec asks, from now on", node.UUID)
	return takeover, nil
}

// takeoverRaces is how often a takeover is repeated because the host was written in between,
// mostly by an observation.
const takeoverRaces = 5

// confirm records that the node is the host's, as both are now.
func (r *takeoverREST) confirm(ctx context.Context, name, nodeUUID string, dryRun bool) (*metal3.BareMetalHost, *ironic.Node, error) {
	for race := 0; ; race++ {
		host, err := r.recordedHost(ctx, name)
		if err != nil {
			return nil, nil, err
		}
		node, err := r.nodeOf(ctx, host)
		if err != nil {
			return nil, nil, err
		}
		if nodeUUID != node.UUID {
			return nil, nil, conflict(host, fmt.Errorf("its node is %s, and spec.nodeUUID is %s: look at the machine once more", node.UUID, nodeUUID))
		}
		confirmed := host.DeepCopy()
		r.taker.TakeOver(confirmed, node)
		if dryRun {
			return confirmed, node, nil
		}
		confirmed, err = r.recorder.Record(ctx, confirmed)
		if !apierrors.IsConflict(err) || race == takeoverRaces {
			return confirmed, node, writeError(name, err)
		}
	}
}
