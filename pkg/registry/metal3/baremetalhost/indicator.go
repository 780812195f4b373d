// SPDX-License-Identifier: Apache-2.0

package baremetalhost

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/validation"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// indicator is the action of baremetalhosts/indicator.
type indicator struct {
	plainAction[*metal3.HostIndicator]
	sources Sources
}

// NewIndicatorREST returns the storage of baremetalhosts/indicator: POST switches a light, and GET
// lists the lights and their states.
func NewIndicatorREST(sources Sources, queue *BMCQueue) rest.Storage {
	i := &indicator{sources: sources}
	kind := requestKind[*metal3.HostIndicator]{
		kind:        "HostIndicator",
		newRequest:  func() *metal3.HostIndicator { return &metal3.HostIndicator{} },
		resetStatus: func(r *metal3.HostIndicator) { r.Status = metal3.HostIndicatorStatus{} },
		validate:    validation.ValidateHostIndicator,
	}
	return newReadableActionREST(kind, sources, queue, i, i.read)
}

// read asks for the state of each light in turn, which locks the node each time. A light of which
// the state cannot be read does not hide the others.
func (i *indicator) read(ctx context.Context, asked Ironic, host *metal3.BareMetalHost, node *ironic.Node, request *metal3.HostIndicator) error {
	lights, err := i.list(ctx, asked, host, node)
	if err != nil {
		return err
	}
	for _, light := range lights {
		shown := shownIndicator(light)
		state, err := asked.GetIndicator(ctx, node.UUID, light.ID)
		if err != nil {
			shown.Error = i.sources.bmcError(host, err, "").Error()
		}
		shown.State = metal3.IndicatorState(state)
		request.Status.Indicators = append(request.Status.Indicators, shown)
	}
	return nil
}

func (i *indicator) list(ctx context.Context, asked Ironic, host *metal3.BareMetalHost, node *ironic.Node) ([]ironic.Indicator, error) {
	lights, err := asked.ListIndicators(ctx, node.UUID)
	if ironic.IsIndicatorNameless(err) {
		return nil, conflict(host, errors.New("Ironic cannot list the lights, because the BMC reports a part of the machine with a light, but without a UUID"))
	}
	return lights, i.sources.bmcError(host, err, "")
}

func shownIndicator(light ironic.Indicator) metal3.Indicator {
	shown := metal3.Indicator{Component: light.Component, Name: light.Name(), ReadOnly: light.ReadOnly}
	for _, state := range light.States {
		shown.States = append(shown.States, metal3.IndicatorState(state))
	}
	return shown
}

func (*indicator) checkNode(host *metal3.BareMetalHost, node *ironic.Node, _ *metal3.HostIndicator) error {
	switch {
	case node.ProvisionState == ironic.Enroll || node.ProvisionState == ironic.Verifying:
		return notVerified(host, node)
	case node.Reservation != "":
		return locked(host, node)
	}
	return nil
}

// write changes nothing in the host. It finds the light and checks the state, for a dry run, too.
func (i *indicator) write(ctx context.Context, asked Ironic, host *metal3.BareMetalHost, node *ironic.Node, request *metal3.HostIndicator, _ bool) (*metal3.BareMetalHost, error) {
	lights, err := i.list(ctx, asked, host, node)
	if err != nil {
		return nil, err
	}
	light, wrong := chooseIndicator(lights, request.Spec)
	if wrong != nil {
		return nil, apierrors.NewInvalid(metal3.Kind("HostIndicator"), host.Name, field.ErrorList{wrong})
	}
	shown := shownIndicator(light)
	shown.State = request.Spec.State
	request.Status.Indicators = []metal3.Indicator{shown}
	return host, nil
}

func (i *indicator) act(ctx context.Context, asked Ironic, host, _ *metal3.BareMetalHost, node *ironic.Node, request *metal3.HostIndicator) error {
	light := request.Status.Indicators[0] // as write has found it
	err := asked.SetIndicator(ctx, ironic.NoFence, node.UUID, light.Name+"@"+light.Component, string(request.Spec.State))
	return i.sources.bmcError(host, err, "whether the light was switched is not known, look before you try again (GET of its subresource indicator)")
}

// defaultComponents are those whose lights people look for, in the order of preference.
var defaultComponents = []string{"system", "chassis"}

// chooseIndicator returns the light that spec means, or what is wrong with spec.
func chooseIndicator(lights []ironic.Indicator, spec metal3.HostIndicatorSpec) (ironic.Indicator, *field.Error) {
	path := field.NewPath("spec")
	found := func(component string) []ironic.Indicator {
		return slices.DeleteFunc(slices.Clone(lights), func(l ironic.Indicator) bool {
			return l.Component != component || spec.Name != "" && l.Name() != spec.Name || spec.Component == "" && l.ReadOnly
		})
	}
	components := defaultComponents
	if spec.Component != "" {
		components = []string{spec.Component}
	}
	var candidates []ironic.Indicator
	for _, component := range components {
		if candidates = found(component); len(candidates) > 0 {
			break
		}
	}
	switch {
	case len(lights) == 0:
		return ironic.Indicator{}, field.Forbidden(path, "the BMC has no light that Ironic knows")
	case len(candidates) == 0 && spec.Component == "":
		return ironic.Indicator{}, field.Required(path.Child("component"), fmt.Sprintf("neither the system nor the chassis has such a light; there are %s", namesOf(lights)))
	case len(candidates) == 0:
		return ironic.Indicator{}, field.Invalid(path.Child("component"), spec.Component, fmt.Sprintf("it has no such light; there are %s", namesOf(lights)))
	case len(candidates) > 1:
		return ironic.Indicator{}, field.Required(path.Child("name"), fmt.Sprintf("there are %s", namesOf(candidates)))
	case candidates[0].ReadOnly:
		return ironic.Indicator{}, field.Forbidden(path, "the light can only be read")
	case !slices.Contains(candidates[0].States, string(spec.State)):
		return ironic.Indicator{}, field.NotSupported(path.Child("state"), spec.State, candidates[0].States)
	}
	return candidates[0], nil
}

// namesOf lists lights for people, as component and name.
func namesOf(lights []ironic.Indicator) string {
	var names []string
	for _, l := range lights {
		names = append(names, l.Component+" "+l.Name())
	}
	return fmt.Sprintf("%q", names)
}
