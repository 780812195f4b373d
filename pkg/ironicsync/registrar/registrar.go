// SPDX-License-Identifier: Apache-2.0

package registrar

import (
	"context"
	"errors"

	"k8s.io/utils/clock"

	api "github.com/metal3-io/metal3-apiserver/pkg/apis/ironic/v1alpha1"
	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/deploy"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/destination"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/recorder"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/secrets"
)

// Ironic is what the registration of a host asks of Ironic.
type Ironic interface {
	Features(ctx context.Context) (ironic.Features, error)
	GetNode(ctx context.Context, idOrName string) (*ironic.Node, error)
	GetRegistration(ctx context.Context, uuid string) (*ironic.Registration, error)
	CreateNode(ctx context.Context, fence ironic.Fence, create ironic.NodeCreate) (*ironic.Node, error)
	UpdateNode(ctx context.Context, fence ironic.Fence, idOrName string, patches []ironic.Patch) (*ironic.Node, error)
	DeleteNode(ctx context.Context, fence ironic.Fence, idOrName string) error
	SetProvisionState(ctx context.Context, fence ironic.Fence, idOrName string, target ironic.ProvisionTarget, options ironic.ProvisionOptions) error
	ListPorts(ctx context.Context, filter ironic.PortFilter) ([]ironic.Port, error)
	CreatePort(ctx context.Context, fence ironic.Fence, nodeUUID, mac string, pxeEnabled bool) (*ironic.Port, error)
}

// Settings are the operator's choices on how hosts are registered.
type Settings struct {
	// BMCs and Images are the addresses of BMCs and of ramdisk images to which users may have Ironic
	// connect.
	BMCs, Images destination.Policy
	// Ramdisk is how hosts boot the ramdisk.
	Ramdisk deploy.Ramdisk
	// BuildImages is set if each host boots a ramdisk image of its own.
	BuildImages bool
	// Cluster is the UID of this cluster, which nodes are marked with; empty if it is not known.
	Cluster string
	// ConductorGroups says to which conductor group the node of a host belongs; nil leaves them alone.
	ConductorGroups *api.IronicConductorGroups
}

// isNetworkInImages reports whether the images of hosts are built with their network data, so that Ironic
// is not given these.
func (s Settings) isNetworkInImages() bool { return s.BuildImages && !s.Ramdisk.HasImages() }

// Deps are what a Registrar works with.
type Deps struct {
	// Name is that of the IronicInstance; empty for the Ironic of the server's flags.
	Name     string
	Hosts    recorder.Hosts
	Ironic   Ironic
	Secrets  *secrets.Secrets
	Recorder *recorder.Recorder
	Claims   *Claims
	// HostImages is nil if all hosts boot the images of the settings.
	HostImages HostImages
	Clock      clock.PassiveClock
}

// Registrar gives hosts their nodes.
type Registrar struct {
	Deps
	settings     Settings
	requirements requirements
	// digest tells the settings apart that nodes are registered with; see DigestOf.
	digest string
}

// New returns a Registrar.
func New(deps Deps, settings Settings) *Registrar {
	return &Registrar{deps, settings, requirements{deps.Ironic, deps.Secrets, deps.HostImages, settings}, digestOfSettings(settings.Ramdisk)}
}

// registration is a host that is to be registered, and what Ironic is to be told of it.
type registration struct {
	host        *metal3.BareMetalHost
	fence       ironic.Fence
	wanted      *wantedNode
	credentials secrets.Credentials
	// former is the name of the Secret that was tried before; empty if none was.
	former string
}

// problem is why a host cannot be registered, which another try does not change.
type problem struct{ reason, message string }

func (e *problem) Error() string { return e.message }

// errSecretGone says that the Secret with the credentials has been deleted since the step was planned.
var errSecretGone = errors.New("the Secret with the credentials of the BMC is gone")

// report records an error that another try does not change as the reason why the host is not
// registered, and returns any other.
func (r *Registrar) report(ctx context.Context, host *metal3.BareMetalHost, err error) error {
	if errors.Is(err, errSecretGone) {
		return nil // the event of its deletion requeues the host
	}
	if known := new(problem); errors.As(err, &known) {
		return r.Recorder.Report(ctx, host, known.reason, known.message)
	}
	var answer *ironic.APIError
	if !errors.As(err, &answer) || ironic.IsLocked(err) || ironic.IsUnavailable(err) {
		return err
	}
	return r.Recorder.Report(ctx, host, metal3.IronicRefusedReason, answer.Message)
}
