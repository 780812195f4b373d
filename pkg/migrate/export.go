package migrate

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
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

	kinds []*Kind
	store *Store
}

// Backup writes all objects of the store as YAML, and returns how many there are.
func Backup(ctx context.Context, store *Store, w io.Writer) (objects int, err error) {
	kinds, err := Kinds(store.scheme)
	if err != nil {
		return 0, err
	}
	for _, kind := range kinds {
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
// server answers it.
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
	version := storedVersion
	if by == servedByServer {
		version = migrationVersion
	}
	if e.DryRun {
		return e.reportDryRun(ctx, by)
	}
	e.Report.Step("Keep metal3-apiserver from managing hosts")
	if err := e.Cluster.holdLease(ctx, e.Lease); err != nil {
		return err
	}
	e.Report.Done("Lease %s is held, and remains held", e.Lease)

	e.Report.Step("Bring the custom resources up to date")
	if err := e.Cluster.addMigrationVersion(ctx, e.kinds); err != nil {
		return err
	}
	uids := UIDs{}
	remaining, err := e.updateCustomResources(ctx, version, uids)
	if err == nil && uids.changed() {
		// An owner may be of a kind that is updated after the objects that it owns.
		e.Report.Done("again, because owners got new UIDs:")
		remaining, err = e.updateCustomResources(ctx, version, uids)
	}
	if err != nil {
		return err
	}
	if by == servedByServer {
		if err := e.handBack(ctx, uids); err != nil {
			return err
		}
		e.Report.Step("Look for changes made in the meantime")
		if remaining, err = e.updateCustomResources(ctx, storedVersion, uids); err != nil {
			return err
		}
	}
	return e.finish(ctx, uids, remaining)
}

// check refuses to export to a cluster in which something else would interfere. It sets
// e.kinds to those that have a CRD, and returns what serves the group.
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
		// With an empty store, pruning would delete all hosts.
		if begun, err := e.Cluster.hasMigrationVersion(ctx, defined); err != nil {
			return "", err
		} else if !begun {
			return "", fmt.Errorf("metal3.io/%s is served by the CRDs, and no export is in progress: there is nothing to give back (to write a backup, use export --to FILE)", storedVersion)
		}
	}
	e.Report.Done("metal3.io/%s is served by %s; no operator is running", storedVersion, by)
	e.kinds = defined
	return by, nil
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
	for _, kind := range e.kinds {
		stored, err := e.store.List(ctx, kind)
		if err != nil {
			return err
		}
		if len(stored) > 0 {
			e.Report.Done("would bring %d %s up to date in the CRDs", len(stored), kind.Resource)
		}
	}
	if by == servedByServer {
		e.Report.Done("would serve %s from the CRDs again, and give APIService %s back to them", storedVersion, apiServiceName)
	}
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
// and adds the UIDs that they have in the CRDs to uids. It returns the names of custom
// resources that remain although they are no longer in the store.
func (e *Export) updateCustomResources(ctx context.Context, version string, uids UIDs) (remaining []string, err error) {
	// Hosts come first, because other objects name them as owners, by their new UIDs.
	for _, kind := range e.kinds {
		stored, err := e.store.List(ctx, kind)
		if err != nil {
			return nil, err
		}
		items, err := e.Cluster.list(ctx, kind, version)
		if err != nil {
			return nil, err
		}
		there := map[types.NamespacedName]*unstructured.Unstructured{}
		for i := range items {
			there[types.NamespacedName{Namespace: items[i].GetNamespace(), Name: items[i].GetName()}] = &items[i]
		}
		var did [outcomeCreated + 1]atomic.Int32 // how many objects had each outcome
		found := make([]types.UID, len(stored))
		objects := sortedObjects(stored)
		group, groupCtx := errgroup.WithContext(ctx)
		group.SetLimit(workers)
		for n, obj := range objects {
			group.Go(func() error {
				w := &writer{e.Cluster.dynamic.Resource(kind.resource(version)).Namespace(obj.Key.Namespace), obj, uids, version}
				is, outcome, err := w.apply(groupCtx, there[obj.Key])
				if err != nil {
					return fmt.Errorf("%s: %w", obj, err)
				}
				for _, path := range w.droppedPaths(is) {
					e.Report.Warn("%s: the CRD drops %s", obj, path)
				}
				found[n] = is.GetUID()
				did[outcome].Add(1)
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			return nil, err
		}
		for n, obj := range objects {
			uids[obj.UID] = found[n]
			delete(there, obj.Key)
		}
		if len(objects) > 0 {
			e.Report.Done("%s: %d the same, %d updated, %d created", kind.Resource, did[outcomeUnchanged].Load(), did[outcomeUpdated].Load(), did[outcomeCreated].Load())
		}
		names, err := e.prune(ctx, kind, version, there)
		if err != nil {
			return nil, err
		}
		remaining = append(remaining, names...)
	}
	return remaining, nil
}
