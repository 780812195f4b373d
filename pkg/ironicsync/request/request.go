// Package request records what users ask for through the actions takeover, clean, rebuild and transfer, and with hard
// power-offs. It changes the status of the host, which the caller writes to etcd, and the leader acts on what is recorded.
package request

import (
	"k8s.io/utils/clock"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

// Recorder records requests, with the time at which they were made, in the status of the hosts that it
// is given. It writes nothing to etcd.
type Recorder struct{ clock clock.PassiveClock }

// NewRecorder returns a Recorder.
func NewRecorder(clock clock.PassiveClock) Recorder { return Recorder{clock} }

// TakeOver records that a user has confirmed that the node is the host's. The error says why that is not possible.
func (r Recorder) TakeOver(host *metal3.BareMetalHost, node *ironic.Node) error {
	return lifecycle.TakeOver(host, node, r.clock.Now())
}

// RequestClean records that the steps are to be carried out on the node. The error says why that is
// not possible.
func (r Recorder) RequestClean(host *metal3.BareMetalHost, node *ironic.Node, steps []metal3.CleanStep) error {
	return lifecycle.RequestClean(host, node, steps, r.clock.Now())
}

// RequestRebuild records that the image of the host is to be written again. The error says why that
// is not possible.
func (r Recorder) RequestRebuild(host *metal3.BareMetalHost, node *ironic.Node) error {
	return lifecycle.RequestRebuild(host, node, r.clock.Now())
}

// RequestTransfer records that the host is to be moved to another Ironic. The error says why that is not
// possible.
func (r Recorder) RequestTransfer(host *metal3.BareMetalHost, node *ironic.Node, to string) error {
	return lifecycle.RequestTransfer(host, node, to, r.clock.Now())
}

// CallOffTransfer records that the host stays in its Ironic. It returns whether the host was to be moved.
func (r Recorder) CallOffTransfer(host *metal3.BareMetalHost) bool {
	return lifecycle.CallOffTransfer(host, r.clock.Now())
}

// CutPower records that the power of the node is to be cut, and that Ironic is about to be asked for that.
func (r Recorder) CutPower(host *metal3.BareMetalHost, node *ironic.Node) {
	lifecycle.CutPower(host, node, r.clock.Now())
}

// PowerCutAnswered records that the request of CutPower does not come later. It returns false if nothing is to be written.
func (Recorder) PowerCutAnswered(host *metal3.BareMetalHost) (changed bool) {
	return lifecycle.PowerCutAnswered(host)
}

// ForgetPowerCut records that the power of the host is not to be cut.
func (Recorder) ForgetPowerCut(host *metal3.BareMetalHost) { lifecycle.ForgetPowerCut(host) }
