package migrate

import (
	"context"
	"fmt"
	"io"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

// Export gives the objects of our store back to the CRDs.
type Export struct {
	Cluster *Cluster
	// OpenStore opens what our server stores its objects in.
	OpenStore func(context.Context) (*Store, error)
	Report    *Report
	// Lease is that of our server's leader.
	Lease types.NamespacedName
	// Target is where our server is found.
	Target Target

	// DryRun changes nothing.
	DryRun bool
	// Prune deletes the custom resources that our store no longer has.
	Prune bool

	kinds []*Kind
	store *Store
}

// Backup writes all objects of our store as YAML.
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

// Run goes as far as it can, from wherever an earlier run has come to.
//
// Everything is prepared while our server still has the group: the custom resources
// are brought up to date aside, and what is owned by an object that was created since
// the switch, and so has another UID in the CRDs, is made nobody's. Only then do the
// CRDs get the group back. In between, the garbage collector finds every owner that
// it is told of, wherever it asks.
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
	version := ours
	if by == byOurs {
		version = aside
	}
	if e.DryRun {
		return e.tell(ctx, by)
	}
	e.Report.Step("Keep metal3-apiserver from driving hosts")
	if err := e.Cluster.hold(ctx, e.Lease); err != nil {
		return err
	}
	e.Report.Done("Lease %s is held, and stays so", e.Lease)

	e.Report.Step("Bring the custom resources up to date")
	if err := e.Cluster.openAside(ctx, e.kinds); err != nil {
		return err
	}
	uids := UIDs{}
	left, err := e.sync(ctx, version, uids)
	if err == nil && uids.changed() {
		// An owner may be of a kind that came after what it owns.
		e.Report.Done("once more, for owners that have got another UID:")
		left, err = e.sync(ctx, version, uids)
	}
	if err != nil {
		return err
	}
	if by == byOurs {
		if err := e.giveBack(ctx, uids); err != nil {
			return err
		}
		e.Report.Step("Look for what was written meanwhile")
		if left, err = e.sync(ctx, ours, uids); err != nil {
			return err
		}
	}
	return e.finish(ctx, uids, left)
}

func (e *Export) check(ctx context.Context) (by handler, err error) {
	e.Report.Step("Check the cluster")
	var refuse refusals
	by, service, err := e.Cluster.servedBy(ctx, e.Target)
	if err != nil {
		return "", err
	}
	if by == byOthers {
		refuse.add("APIService %s names the Service %s, which is neither the CRDs nor %s/%s: who is that?", apiServiceName, service, e.Target.Namespace, e.Target.Name)
	}
	defined, err := e.Cluster.definedKinds(ctx, e.kinds, &refuse)
	if err != nil {
		return "", err
	}
	has := map[*Kind]bool{}
	for _, kind := range defined {
		has[kind] = true
	}
	if err := e.Cluster.checkOperator(ctx, &refuse); err != nil {
		return "", err
	}
	if err := e.Cluster.checkWebhooks(ctx, &refuse); err != nil {
		return "", err
	}
	if err := refuse.err("this cluster cannot be given its objects back as it is"); err != nil {
		return "", err
	}
	if by == byCRDs {
		// Pruning what an empty store does not have would be the end of all hosts.
		if begun, err := e.Cluster.isAside(ctx, defined); err != nil {
			return "", err
		} else if !begun {
			return "", fmt.Errorf("metal3.io/%s is served by the CRDs, and no export is under way: there is nothing to give back (export --to FILE writes a backup)", ours)
		}
	}
	e.Report.Done("metal3.io/%s is served by %s; no operator is running", ours, by)
	e.kinds = defined
	return by, nil
}

// giveBack has the CRDs serve the group.
func (e *Export) giveBack(ctx context.Context, uids UIDs) error {
	e.Report.Step("Give the group back to the CRDs")
	if err := e.detachOwned(ctx, uids); err != nil {
		return err
	}
	if err := e.Cluster.serve(ctx, e.kinds, true); err != nil {
		return err
	}
	if err := e.Cluster.pointBack(ctx, e.Target); err != nil {
		return err
	}
	e.Report.Done("APIService %s is the CRDs' again, which serve %s", apiServiceName, ours)
	return nil
}

func (e *Export) finish(ctx context.Context, uids UIDs, left []string) error {
	e.Report.Step("Finish")
	if err := e.attachOwned(ctx, uids); err != nil {
		return err
	}
	if err := refusals(left).err("do not start the operator yet: it would act on these. They are in the CRDs and were deleted since the switch: export --prune removes them"); err != nil {
		return err
	}
	if err := e.Cluster.closeAside(ctx, e.kinds); err != nil {
		return err
	}
	e.Report.Done("everything is as metal3-apiserver has it; next: put the operator's webhooks back and start it, and restart CAPM3 and whoever else watches metal3.io")
	return nil
}

// tell is the dry run.
func (e *Export) tell(ctx context.Context, by handler) error {
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
	if by == byOurs {
		e.Report.Done("would serve %s from the CRDs again, and give APIService %s back to them", ours, apiServiceName)
	}
	return nil
}

// UIDs are what the UIDs in our store are in the CRDs.
type UIDs map[types.UID]types.UID

// changed tells whether there are others in the CRDs.
func (u UIDs) changed() bool {
	for stored, uid := range u {
		if stored != uid {
			return true
		}
	}
	return false
}

// sync makes the custom resources what our store has, and enters into uids what they
// have become. left are those that our store does not have any more.
func (e *Export) sync(ctx context.Context, version string, uids UIDs) (left []string, err error) {
	// Hosts come first: others name them as owners, by the UID that they get.
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
		var created, updated counter
		found := make([]types.UID, len(stored))
		objects := sortedObjects(stored)
		group, groupCtx := errgroup.WithContext(ctx)
		group.SetLimit(workers)
		for n, obj := range objects {
			group.Go(func() error {
				w := &writer{e.Cluster.dynamic.Resource(kind.resource(version)).Namespace(obj.Key.Namespace), obj, uids, version}
				is, did, err := w.bring(groupCtx, there[obj.Key])
				if err != nil {
					return fmt.Errorf("%s: %w", obj, err)
				}
				for _, path := range w.lost(is) {
					e.Report.Warn("%s: the CRD does not take %s", obj, path)
				}
				found[n] = is.GetUID()
				created.add(did == didCreate)
				updated.add(did == didUpdate)
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
			e.Report.Done("%s: %d the same, %d updated, %d created", kind.Resource, len(objects)-created.n-updated.n, updated.n, created.n)
		}
		names, err := e.prune(ctx, kind, version, there)
		if err != nil {
			return nil, err
		}
		left = append(left, names...)
	}
	return left, nil
}
