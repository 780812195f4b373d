// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// Export gives the objects of metal3-apiserver's store back to the CRDs.
type Export struct {
	Cluster *Cluster
	// OpenStore opens the store of metal3-apiserver.
	OpenStore func(context.Context) (*Store, error)
	// Report receives the progress, for the user.
	Report *Report
	// Lease is the Lease that the leader of metal3-apiserver holds.
	Lease types.NamespacedName
	// Target is where kube-apiserver finds metal3-apiserver.
	Target Target

	// DryRun reports what would be done, and changes nothing.
	DryRun bool
	// Prune deletes the custom resources of objects that are no longer in the store.
	Prune bool
	// Foresee says what the operator would do to machines that metal3-apiserver leaves alone. It is nil if that is not
	// to be said.
	Foresee func(ctx context.Context, hosts []*v1alpha1.BareMetalHost) (harms []string, err error)
	// Restored says why the store, which is open, seems to be restored from a backup, or another one; empty if it does not.
	Restored func(context.Context) (reason string, err error)
	// RiskMachines gives hosts back whatever Foresee and Restored say.
	RiskMachines bool

	// kinds are those that have a CRD, and undefined those that have none.
	kinds, undefined []*Kind
	store            *Store
	// left says how this run has left the custom resources, by the UIDs of their objects in the store.
	left map[types.UID]leftAs
}

// Backup writes all objects of the store as YAML, and returns how many there are. IronicInstances come first, because hosts name them.
func Backup(ctx context.Context, store *Store, w io.Writer) (objects int, err error) {
	kinds, err := Kinds(store.scheme)
	if err != nil {
		return 0, err
	}
	for _, kind := range append([]*Kind{store.instances}, kinds...) {
		stored, err := store.List(ctx, kind)
		if err != nil {
			return objects, err
		}
		for _, obj := range sortedObjects(stored) {
			text, err := yaml.Marshal(obj.fields)
			if err != nil {
				return objects, fmt.Errorf("%s: %w", obj, err)
			}
			if _, err := fmt.Fprintf(w, "---\n%s", text); err != nil {
				return objects, err
			}
			objects++
		}
	}
	return objects, nil
}

// Run does whatever earlier runs have not done yet.
//
// Everything is prepared while metal3-apiserver still serves the group. The custom
// resources are brought up to date through the migration version. An object that was
// created after the switch gets a new UID in the CRDs, so the objects that it owns lose
// their owner references for the time being. Only then do the CRDs serve the group again.
// At every moment, the garbage collector finds all owners that are referred to, whichever
// server answers it. From then on, what clients write to the CRDs counts: see lookAgain.
func (e *Export) Run(ctx context.Context) (err error) {
	if e.kinds, err = Kinds(e.Cluster.scheme); err != nil {
		return err
	}
	by, err := e.check(ctx)
	if err != nil {
		return err
	}
	if e.store, err = e.OpenStore(ctx); err != nil {
		return err
	}
	defer e.store.Close()
	if by == servedByServer {
		// While metal3-apiserver can still be started, and the hosts be corrected.
		if err := errors.Join(e.refuseRestored(ctx), e.refuseUndefined(ctx), e.foresee(ctx)); err != nil {
			return err
		}
	}
	if e.DryRun {
		return e.reportDryRun(ctx, by)
	}
	e.Report.Step("Keep metal3-apiserver from managing hosts")
	if err := e.Cluster.holdLease(ctx, e.Lease); err != nil {
		return err
	}
	e.Report.Done("Lease %s is held, and remains held", e.Lease)

	uids := UIDs{}
	if by == servedByServer {
		if err := e.prepare(ctx, uids); err != nil {
			return err
		}
		if err := e.handBack(ctx, uids); err != nil {
			return err
		}
	}
	if removed, err := e.Cluster.removeIronicGroup(ctx, e.Target); err != nil {
		return err
	} else if removed {
		e.Report.Done("APIService %s is deleted: nothing else serves it, and it would block the deletion of namespaces", ironicAPIServiceName)
	}
	e.Report.Step("Look for changes made in the meantime")
	remaining, err := e.lookAgain(ctx, uids)
	if err != nil {
		return err
	}
	return e.finish(ctx, uids, remaining)
}

// prepare brings the custom resources up to date.
func (e *Export) prepare(ctx context.Context, uids UIDs) error {
	e.Report.Step("Bring the custom resources up to date")
	if err := e.Cluster.addMigrationVersion(ctx, e.kinds); err != nil {
		return err
	}
	err := e.updateCustomResources(ctx, uids)
	if err == nil && uids.changed() {
		// An owner may be of a kind that is updated after the objects that it owns.
		e.Report.Done("again, because owners got new UIDs:")
		err = e.updateCustomResources(ctx, uids)
	}
	return err
}

// check refuses to export to a cluster in which something else would interfere. It sets
// e.kinds and e.undefined, and returns what serves the group.
func (e *Export) check(ctx context.Context) (by handler, err error) {
	e.Report.Step("Check the cluster")
	var refuse refusals
	by, defined, err := e.Cluster.check(ctx, e.Target, e.kinds, &refuse)
	if err != nil {
		return "", err
	}
	if err := refuse.err("objects cannot be exported to this cluster in its current state"); err != nil {
		return "", err
	}
	if by == servedByCRDs {
		if begun, err := e.Cluster.hasMigrationVersion(ctx, defined); err != nil {
			return "", err
		} else if !begun {
			return "", fmt.Errorf("metal3.io/%s is served by the CRDs, and no export is in progress: there is nothing to give back (to write a backup, use export --to FILE)", storedVersion)
		}
	}
	e.Report.Done("metal3.io/%s is served by %s; no operator is running", storedVersion, by)
	e.undefined = slices.DeleteFunc(e.kinds, func(kind *Kind) bool { return slices.Contains(defined, kind) })
	e.kinds = defined
	return by, nil
}

// refuseRestored refuses to give an operator what was so when a backup was saved, or nothing: it would carry on undeploying machines
// that run something again, and the user would delete the custom resources of hosts that are missing.
func (e *Export) refuseRestored(ctx context.Context) error {
	reason, err := e.Restored(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("finding out whether the store was restored from a backup: %w", err)
	case reason == "":
		return nil
	case e.RiskMachines:
		e.Report.Warn("the objects in the store may not be those of now: %s", reason)
		return nil
	}
	return fmt.Errorf("the objects in the store may not be those of now: %s. Compare them with the machines, and let metal3-apiserver go on first (docs/restore.md), "+
		"or accept that with --risk-machines", reason)
}

// refuseUndefined refuses to forget objects for which the cluster has no CRD, such as one of an older operator.
func (e *Export) refuseUndefined(ctx context.Context) error {
	var refuse refusals
	for _, kind := range e.undefined {
		stored, err := e.store.List(ctx, kind)
		if err != nil {
			return err
		}
		if len(stored) > 0 {
			refuse.add("%d %s, of which the first is %s: there is no CRD %s", len(stored), kind.Resource, sortedObjects(stored)[0].Key, kind.CRD())
		}
	}
	return refuse.err("these objects would be lost: install the CRDs, from a release of the operator that has them, or start metal3-apiserver and delete the objects")
}

// foresee refuses to give back hosts of which the operator would harm the machines.
func (e *Export) foresee(ctx context.Context) error {
	if e.Foresee == nil {
		return nil
	}
	var hosts []*v1alpha1.BareMetalHost
	for _, kind := range e.kinds {
		if kind.Kind != "BareMetalHost" {
			continue
		}
		stored, err := e.store.List(ctx, kind)
		if err != nil {
			return err
		}
		for _, obj := range sortedObjects(stored) {
			if host, is := obj.typed.(*v1alpha1.BareMetalHost); is {
				hosts = append(hosts, host)
			}
		}
	}
	harms, err := e.Foresee(ctx, hosts)
	if err != nil {
		return err
	}
	var refuse refusals
	for _, harm := range harms {
		if e.RiskMachines {
			e.Report.Warn("%s", harm)
		} else {
			refuse.add("%s", harm)
		}
	}
	return refuse.err("the operator would harm machines that metal3-apiserver leaves alone: start metal3-apiserver again " +
		"and correct these hosts, or accept that with --risk-machines")
}

// handBack makes the CRDs serve the group again.
func (e *Export) handBack(ctx context.Context, uids UIDs) error {
	e.Report.Step("Give the group back to the CRDs")
	if err := e.detachDependents(ctx, uids); err != nil {
		return err
	}
	if err := e.Cluster.setServed(ctx, e.kinds, true); err != nil {
		return err
	}
	if err := e.Cluster.routeToCRDs(ctx, e.Target); err != nil {
		return err
	}
	e.Report.Done("APIService %s belongs to the CRDs again, which serve %s", apiServiceName, storedVersion)
	return nil
}

// finish restores owners and removes the migration version, unless objects remain in the
// CRDs that are no longer in the store.
func (e *Export) finish(ctx context.Context, uids UIDs, remaining []string) error {
	e.Report.Step("Finish")
	if err := e.reattachDependents(ctx, uids); err != nil {
		return err
	}
	if err := refusals(remaining).err("do not start the operator yet: these objects were deleted after the switch but are still in the CRDs, and the operator would act on them. To remove them, run export --prune"); err != nil {
		return err
	}
	if err := e.Cluster.removeMigrationVersion(ctx, e.kinds); err != nil {
		return err
	}
	e.Report.Done("the CRDs have everything that metal3-apiserver has; next: restore the operator's webhooks, start it, and restart CAPM3 and all other clients that watch metal3.io")
	return nil
}

// reportDryRun reports what would be done.
func (e *Export) reportDryRun(ctx context.Context, by handler) error {
	e.Report.Step("What would be done")
	if by == servedByCRDs {
		e.Report.Done("would finish an export that has given the group back to the CRDs")
		return nil
	}
	for _, kind := range e.kinds {
		stored, err := e.store.List(ctx, kind)
		if err != nil {
			return err
		}
		if len(stored) > 0 {
			e.Report.Done("would bring %d %s up to date in the CRDs", len(stored), kind.Resource)
		}
	}
	unlisted, err := e.Cluster.forEachDependent(ctx, e.Report, func(schema.GroupVersionResource, *metav1.PartialObjectMetadata) error { return nil })
	if err != nil {
		return err
	}
	e.warnUnlisted(unlisted)
	e.Report.Done("not checked: whether the CRDs accept all objects; those that they refuse will be listed, before anything is given back")
	e.Report.Done("would serve %s from the CRDs again, give APIService %s back to them, and delete %s", storedVersion, apiServiceName, ironicAPIServiceName)
	return nil
}

// UIDs maps the UIDs of objects in the store to their UIDs in the CRDs.
type UIDs map[types.UID]types.UID

// changed reports whether any object has another UID in the CRDs.
func (u UIDs) changed() bool {
	for stored, uid := range u {
		if stored != uid {
			return true
		}
	}
	return false
}

// updateCustomResources makes the custom resources the same as the objects in the store,
// and adds the UIDs that they have in the CRDs to uids. Those that are no longer in the store
// are deleted, or marked for a later run that prunes. The error lists all objects that the CRDs refuse.
func (e *Export) updateCustomResources(ctx context.Context, uids UIDs) error {
	e.left = map[types.UID]leftAs{}
	var refuse refusals
	// Hosts come first, because other objects name them as owners, by their new UIDs.
	for _, kind := range e.kinds {
		stored, there, err := e.both(ctx, kind, migrationVersion)
		if err != nil {
			return err
		}
		var did [outcomeCreated + 1]atomic.Int32 // how many objects had each outcome
		found, refused := make([]leftAs, len(stored)), make([]error, len(stored))
		objects := sortedObjects(stored)
		group, groupCtx := errgroup.WithContext(ctx)
		group.SetLimit(workers)
		for n, obj := range objects {
			group.Go(func() error {
				is, outcome, err := e.apply(groupCtx, e.writer(obj, uids, migrationVersion), there[obj.Key])
				if isRefused(err) {
					refused[n] = err
					return nil
				}
				if err != nil {
					return err
				}
				found[n] = leftAs{stored: obj.ResourceVersion, uid: is.GetUID(), resourceVersion: is.GetResourceVersion()}
				did[outcome].Add(1)
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			return err
		}
		for n, obj := range objects {
			delete(there, obj.Key)
			if refused[n] != nil {
				refuse.add("%v", refused[n])
				continue
			}
			uids[obj.UID], e.left[obj.UID] = found[n].uid, found[n]
		}
		if len(objects) > 0 {
			e.Report.Done("%s: %d the same, %d updated, %d created", kind.Resource, did[outcomeUnchanged].Load(), did[outcomeUpdated].Load(), did[outcomeCreated].Load())
		}
		for _, item := range sortedItems(there) {
			if err := e.markOrPrune(ctx, kind, migrationVersion, item); err != nil {
				return err
			}
		}
	}
	return refuse.err("the CRDs refuse these objects: start metal3-apiserver again, which manages nothing meanwhile, correct the objects, stop it, and run export again")
}

// isRefused reports whether an object cannot be written as it is: because of the schema of its CRD, or of a policy or webhook.
func isRefused(err error) bool {
	return errors.Is(err, errDying) || apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err)
}

// both lists the objects of a kind in the store, and the custom resources.
func (e *Export) both(ctx context.Context, kind *Kind, version string) (stored Objects, there map[types.NamespacedName]*unstructured.Unstructured, err error) {
	if stored, err = e.store.List(ctx, kind); err != nil {
		return nil, nil, err
	}
	items, err := e.Cluster.list(ctx, kind, version)
	if err != nil {
		return nil, nil, err
	}
	there = make(map[types.NamespacedName]*unstructured.Unstructured, len(items))
	for i := range items {
		there[types.NamespacedName{Namespace: items[i].GetNamespace(), Name: items[i].GetName()}] = &items[i]
	}
	return stored, there, nil
}

func (e *Export) writer(obj *Object, uids UIDs, version string) *writer {
	return &writer{e.Cluster.dynamic.Resource(obj.Kind.resource(version)).Namespace(obj.Key.Namespace), obj, uids, version}
}

// apply has w write its object, and reports what the CRD drops.
func (e *Export) apply(ctx context.Context, w *writer, there *unstructured.Unstructured) (is *unstructured.Unstructured, did outcome, err error) {
	if is, did, err = w.apply(ctx, there); err != nil {
		return nil, 0, fmt.Errorf("%s: %w", w.obj, err)
	}
	for _, path := range w.droppedPaths(is) {
		e.Report.Warn("%s: the CRD drops %s", w.obj, path)
	}
	return is, did, nil
}
