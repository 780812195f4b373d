// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
)

// verify requests the objects that are in the CRDs from kube-apiserver, as any client
// would.
func (i *Import) verify(ctx context.Context, defined []*Kind) error {
	i.Report.Step("Verify through kube-apiserver")
	if err := i.Cluster.waitAvailable(ctx, i.Wait); err != nil {
		return fmt.Errorf("the switch is done, but metal3-apiserver does not answer yet (%w): start it with kubectl scale deployment -n %s %s --replicas=1 (or more), "+
			"and run import --verify; until then, metal3-apiserver does not manage hosts", err, i.Target.Namespace, i.Target.Name)
	}
	if err := i.Cluster.addMigrationVersion(ctx, defined); err != nil {
		return err
	}
	if err := i.compareServed(ctx, defined); err != nil {
		return err
	}

	i.Report.Step("Finish")
	if err := i.Cluster.removeMigrationVersion(ctx, defined); err != nil {
		return err
	}
	if err := i.Cluster.releaseLease(ctx, i.Lease); err != nil {
		return err
	}
	i.Report.Done("metal3-apiserver manages the hosts from now on")
	i.Report.Done("next: restart CAPM3 and all other clients that watch metal3.io, because resourceVersions now come from another etcd")
	return nil
}

// compareServed compares what metal3-apiserver serves with the custom resources. Clients can change,
// delete and replace objects as soon as it serves them: such differences are only reported.
func (i *Import) compareServed(ctx context.Context, defined []*Kind) error {
	copied, err := i.Cluster.copiedSoFar(ctx, i.Lease)
	if err != nil {
		return err
	}
	c := servedComparison{report: i.Report, copied: copied}
	served := ""
	for _, kind := range defined {
		resources, err := i.Cluster.customResources(ctx, kind, migrationVersion)
		if err != nil {
			return err
		}
		live, err := i.awaitNodes(ctx, kind, resources)
		if err != nil {
			return err
		}
		for _, obj := range sortedObjects(resources) {
			c.compare(obj, live[obj.Key])
		}
		if n := len(live); n > 0 {
			served += fmt.Sprintf(", %d %s", n, kind.Resource)
		}
	}
	if c.same == 0 && c.others > 0 {
		return errors.New("metal3-apiserver serves none of the objects that are in the CRDs: let it use the etcd into which " +
			"they were copied (--etcd-servers, --etcd-prefix, --data-dir). If all of them were deleted after the switch, " +
			"delete them as RESOURCE.migration.metal3.io, too")
	}
	if err := c.missing.err("these objects are in the CRDs, but are not served, and may never have been copied, because an " +
		"earlier run was killed while it was switching. Look at each with kubectl get RESOURCE.migration.metal3.io " +
		"-n NAMESPACE NAME -o yaml, and create it again, or delete it as RESOURCE.migration.metal3.io with --wait=false; " +
		"then run import --verify"); err != nil {
		return err
	}
	if err := c.deleted.err("these objects were deleted in the CRDs while an earlier run was switching, and are served as if they were not. " +
		"Delete each again, or have its custom resource go by removing the finalizers of RESOURCE.migration.metal3.io; then run import --verify"); err != nil {
		return err
	}
	if err := c.changed.err("these objects were changed in the CRDs while an earlier run was switching, and may be served without that. " +
		"Compare each with kubectl get RESOURCE.migration.metal3.io -n NAMESPACE NAME -o yaml, and edit either until both are the same; " +
		"then run import --verify"); err != nil {
		return err
	}
	i.Report.Done("served with the UIDs that they had%s", served)
	return nil
}

// servedComparison compares custom resources with the objects that are served.
type servedComparison struct {
	report *Report
	copied copiedTo
	// same and others count the objects that are served with and without the UIDs of the custom resources.
	same, others              int
	missing, deleted, changed refusals
}

// compare compares a custom resource with the object that is served of that name; nil if there is none.
func (c *servedComparison) compare(obj, is *Object) {
	switch {
	case is != nil && is.UID == obj.UID:
		c.same++
		if obj.isBeingDeleted() && !is.isBeingDeleted() {
			c.deleted.add("%s", obj)
			return
		}
		// The status is live.
		switch path := firstDifference(obj.withoutServerFields(), is.withoutServerFields()); {
		case path == "":
		case c.copied.has(obj):
			c.report.Warn("%s differs from the CRDs in %s: it was changed after the switch", obj, path)
		default: // an earlier run was killed before it copied what was written last
			c.changed.add("%s differs in %s", obj, path)
		}
	case is != nil:
		c.others++
		c.report.Warn("%s is served with UID %s instead of %s: it was created again after the switch", obj, is.UID, obj.UID)
	case obj.isBeingDeleted():
		c.report.Warn("%s is not served, and is being deleted from the CRDs", obj)
	case c.copied.has(obj):
		c.others++
		c.report.Warn("%s is not served: it was deleted after the switch", obj)
	default:
		c.missing.add("%s", obj)
	}
}

func (o *Object) isBeingDeleted() bool {
	accessor, err := meta.Accessor(o.typed)
	return err == nil && accessor.GetDeletionTimestamp() != nil
}

// copiedAnnotation of the Lease says which custom resources are known to have been in the store when
// metal3-apiserver began to serve them, see copiedTo.
const copiedAnnotation = "metal3-apiserver.metal3.io/copied-up-to"

// copiedTo has, by resource, the highest resourceVersion of the custom resources that were the same in
// the store. One that was written later has a higher one: they are revisions of etcd.
type copiedTo map[string]uint64

// has reports whether a custom resource is known to have been copied.
func (c copiedTo) has(obj *Object) bool {
	version, err := strconv.ParseUint(obj.ResourceVersion, 10, 64)
	return err == nil && version <= c[obj.Kind.Resource]
}

// recordCopied records that these custom resources, by resource, are the same in the store.
func (c *Cluster) recordCopied(ctx context.Context, lease types.NamespacedName, copied map[string]Objects) error {
	to := copiedTo{}
	for resource, objects := range copied {
		for _, obj := range objects {
			version, err := strconv.ParseUint(obj.ResourceVersion, 10, 64)
			if err != nil {
				return fmt.Errorf("%s: resourceVersion: %w", obj, err)
			}
			to[resource] = max(to[resource], version)
		}
	}
	text, err := json.Marshal(to)
	if err != nil {
		return err
	}
	return c.annotateLease(ctx, lease, copiedAnnotation, string(text))
}

// copiedSoFar returns what recordCopied has recorded; nothing if the Lease is a new one.
func (c *Cluster) copiedSoFar(ctx context.Context, lease types.NamespacedName) (copied copiedTo, err error) {
	text, err := c.leaseAnnotation(ctx, lease, copiedAnnotation)
	if err != nil || text == "" {
		return nil, err
	}
	if err := json.Unmarshal([]byte(text), &copied); err != nil {
		return nil, leaseError(lease, fmt.Errorf("annotation %s: %w", copiedAnnotation, err))
	}
	return copied, nil
}
