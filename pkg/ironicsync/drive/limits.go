package drive

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/drive/capacity"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

// Here is whose turn it is, where only so many hosts may do something at a time.

// mayTry tells whether a step may be taken now, as far as other hosts whose BMCs are
// silent are concerned. If not, the host is planned again when it is its turn. What
// was mended, or is asked for, has not to wait for them.
func (c *Controller) mayTry(host *metal3.BareMetalHost, step lifecycle.Step, mended bool) bool {
	if !step.Retry {
		// The try is over, or is not wanted any more. (One that goes on keeps its place
		// until the informer, by which tries are counted, shows it.)
		if step.Do == lifecycle.Wait && !isRetrying(host) {
			c.retries.Forget(host.Namespace, host.Name)
		}
		return true
	}
	return mended || !isTriedSoon(host.Status.ErrorType, host.Status.ErrorMessage) || c.retries.TryStart(host.Namespace, host.Name)
}

// busy counts the hosts that the provisioning limit is about, by namespace.
func (c *Controller) busy() map[string]int { return c.count(isBusy) }

// retrying counts the hosts that maxRetrying is about, by namespace.
func (c *Controller) retrying() map[string]int { return c.count(isRetrying) }

func (c *Controller) count(is func(*metal3.BareMetalHost) bool) map[string]int {
	counts := map[string]int{}
	for _, obj := range c.informer.GetStore().List() {
		if host := obj.(*metal3.BareMetalHost); is(host) {
			counts[host.Namespace]++
		}
	}
	return counts
}

// isBusy tells whether Ironic is at work on the host in a way that the
// provisioning limit is about. Between its cleaning and its deployment a host keeps
// its place: another one that took it would be at work beside it.
func isBusy(host *metal3.BareMetalHost) bool {
	if host == nil || host.Status.Ironic == nil {
		return false
	}
	return capacity.Counts(ironic.ProvisionState(host.Status.Ironic.ProvisionState), bootInterface(host)) ||
		isAboutToDeploy(host) && !isExempt(host)
}

// isAboutToDeploy tells whether a deployment of the host is the next step, and nothing
// keeps it back.
func isAboutToDeploy(host *metal3.BareMetalHost) bool {
	_, paused := host.Annotations[metal3.PausedAnnotation]
	status := &host.Status
	return status.Provisioning.State == metal3.StateProvisioning && status.Ironic.ProvisionState == string(ironic.Available) &&
		status.OperationalStatus == metal3.OperationalStatusOK && !status.Ironic.Maintenance && !paused
}

// isRetrying tells whether one of Ironic's workers is busy with a BMC that may not
// answer.
func isRetrying(host *metal3.BareMetalHost) bool {
	if host == nil || host.Status.Ironic == nil || host.Status.Ironic.Reservation == "" {
		return false
	}
	if since := host.Status.LastUpdated; since != nil && time.Since(since.Time) > retryLimit {
		return false
	}
	return host.Status.ErrorCount > 0 || host.Status.Ironic.ProvisionState == string(ironic.Verifying)
}

// isExempt tells whether the provisioning limit is not about the host.
func isExempt(host *metal3.BareMetalHost) bool { return capacity.Exempt(bootInterface(host)) }

func bootInterface(host *metal3.BareMetalHost) string {
	access, err := bmc.Parse(host.Spec.BMC.Address, true)
	if err != nil {
		return ""
	}
	return access.BootInterface
}

// wake has the hosts planned whose turn it is, if there is room.
func (c *Controller) wake(gate *capacity.Gate) {
	for {
		namespace, name, ok := gate.NextReady()
		if !ok {
			return
		}
		c.queue.Add(types.NamespacedName{Namespace: namespace, Name: name})
	}
}
