// SPDX-License-Identifier: Apache-2.0

package baremetalhost

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// HostRecorder records the status of hosts.
type HostRecorder interface {
	// Record writes the host, unless another client has written it since it was read.
	Record(ctx context.Context, host *metal3.BareMetalHost) (*metal3.BareMetalHost, error)
}

// recordingREST serves the subresource of an action that only records in the host's status what
// was requested. The leader acts on it.
type recordingREST[R request] struct {
	requestKind[R]
	Sources
	recorder HostRecorder
	// takesOver is set if the request is what proves that the node is the host's.
	takesOver bool
	// needsNoNode, if it is set, reports whether the request of a host is recorded whatever its node is like. The node
	// is nil then.
	needsNoNode func(host *metal3.BareMetalHost, request R) bool
	// change changes the status of the host according to the node and the request, and sets the
	// status of the request. The error is that of the API.
	change func(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node, request R) error
}

// Create records the request, or only checks it for a dry run.
func (r *recordingREST[R]) Create(ctx context.Context, name string, obj runtime.Object, createValidation rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	request, err := r.accept(ctx, name, obj, createValidation)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ironic.WithQuestion(ctx, genericapirequest.NamespaceValue(ctx)), actionTimeout)
	defer cancel()
	return request, r.record(ctx, name, request, dryrun.IsDryRun(options.DryRun))
}

// recordingRaces is how often a change is repeated because the host was written in between,
// mostly by an observation.
const recordingRaces = 5

// record changes and writes the host, as it and its node are now.
func (r *recordingREST[R]) record(ctx context.Context, name string, request R, dryRun bool) error {
	for race := 0; ; race++ {
		host, err := r.recordedHost(ctx, name)
		if err != nil {
			return err
		}
		node, err := r.nodeFor(r.Nodes.Guard(ctx, host), host, request)
		if err != nil {
			return err
		}
		changed := host.DeepCopy()
		if err := r.change(ctx, changed, node, request); err != nil {
			return err
		}
		if dryRun {
			return nil
		}
		_, err = r.recorder.Record(ctx, changed)
		if err == nil {
			r.tell(ctx, host, r.kind, request)
		}
		if !apierrors.IsConflict(err) || race == recordingRaces {
			return writeError(name, err)
		}
	}
}

// nodeFor reads the node that a request is about.
func (r *recordingREST[R]) nodeFor(ctx context.Context, host *metal3.BareMetalHost, request R) (node *ironic.Node, err error) {
	switch {
	case r.needsNoNode != nil && r.needsNoNode(host, request):
	case r.takesOver:
		_, node, err = r.nodeToTakeOver(ctx, host)
	default:
		_, node, err = r.nodeOf(ctx, host)
	}
	return node, err
}
