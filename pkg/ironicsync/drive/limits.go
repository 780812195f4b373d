package drive

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/drive/capacity"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
)

// mayTry tells whether a step may be taken now, given how many hosts with silent BMCs
// are being tried at the moment. If not, the gate has the host planned again when there
// is room. A host of which something was changed (retryNow) does not wait for others.
func (c *Controller) mayTry(host *metal3.BareMetalHost, step lifecycle.Step, retryNow bool) bool {
	if !step.Retry {
		// The try is over, or is not wanted any more. (One that goes on keeps its place
		// until the informer, by which tries are counted, shows it.)
		if step.Do == lifecycle.Wait && !isRetrying(host) {
			c.retries.Forget(host.Namespace, host.Name)
		}
		return true
	}
	return retryNow || !mayBeSilentBMC(&host.Status) || c.retries.TryStart(host.Namespace, host.Name)
}

// busy counts the hosts that the provisioning limit is about, by namespace.
func (c *Controller) busy() map[string]int {
	counts := map[string]int{}
	indexer := c.informer.GetIndexer()
	for _, namespace := range indexer.ListIndexFuncValues(byBusy) {
		if keys, err := indexer.IndexKeys(byBusy, namespace); err == nil { // there is such an index
			counts[namespace] = len(keys)
		}
	}
	return counts
}

// retrying counts the hosts that maxRetrying is about, by namespace.
func (c *Controller) retrying() map[string]int {
	counts := map[string]int{}
	indexer := c.informer.GetIndexer()
	for _, namespace := range indexer.ListIndexFuncValues(byWorker) {
		hosts, err := indexer.ByIndex(byWorker, namespace)
		if err != nil {
			continue // there is such an index
		}
		for _, obj := range hosts {
			if isRetrying(obj.(*metal3.BareMetalHost)) {
				counts[namespace]++
			}
		}
	}
	return counts
}

// namespaceIf is an index by namespace of the hosts of which something is true. The gates
// count by such indexes, not by looking at all hosts each time that one of them asks.
func namespaceIf(isTrue func(*metal3.BareMetalHost) bool) cache.IndexFunc {
	return func(obj any) ([]string, error) {
		if host := obj.(*metal3.BareMetalHost); isTrue(host) {
			return []string{host.Namespace}, nil
		}
		return nil, nil
	}
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
// answer, and not for longer than that can take.
func isRetrying(host *metal3.BareMetalHost) bool {
	if !hasWorker(host) {
		return false
	}
	since := host.Status.LastUpdated
	return since == nil || time.Since(since.Time) <= retryLimit
}

// hasWorker tells whether one of Ironic's workers is busy with a BMC that may not answer.
func hasWorker(host *metal3.BareMetalHost) bool {
	if host == nil || host.Status.Ironic == nil || host.Status.Ironic.Reservation == "" {
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

// wake has those of the waiting hosts planned that there is room for now.
func (c *Controller) wake(gate *capacity.Gate) {
	for {
		namespace, name, ok := gate.NextReady()
		if !ok {
			return
		}
		c.queue.Add(types.NamespacedName{Namespace: namespace, Name: name})
	}
}
