// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// Import copies the objects of a cluster's CRDs into the store of metal3-apiserver.
type Import struct {
	Cluster *Cluster
	// OpenStore opens the store of metal3-apiserver.
	OpenStore func(context.Context) (*Store, error)
	// Report receives the progress, for the user.
	Report *Report
	// Lease is the Lease that the leader of metal3-apiserver holds.
	Lease types.NamespacedName
	// Target is where kube-apiserver will find metal3-apiserver.
	Target Target

	// Switch makes metal3-apiserver serve the group, provided that everything is copied.
	Switch bool
	// Verify completes a switch once metal3-apiserver runs. Unlike Switch, it does not open the store.
	Verify bool
	// DryRun reports what would be done, and changes nothing.
	DryRun bool
	// DropUnknownFields drops fields that the types of metal3-apiserver do not have.
	// Without it, such fields are a reason to refuse.
	DropUnknownFields bool
	// Replace makes the store the same as the CRDs, whatever it contains.
	Replace bool
	// Foresee says what metal3-apiserver will do with hosts. It is nil if that is not to be said.
	Foresee func(ctx context.Context, hosts []*v1alpha1.BareMetalHost) (problems, first []string, err error)
	// LostNodes completes a switch although metal3-apiserver finds the node of no host in Ironic.
	LostNodes bool
	// Wait is how long metal3-apiserver may take after the switch to answer, and then to reach Ironic.
	Wait time.Duration

	kinds []*Kind
}

// Run does whatever earlier runs have not done yet.
func (i *Import) Run(ctx context.Context) (err error) {
	if i.kinds, err = Kinds(i.Cluster.scheme); err != nil {
		return err
	}
	defined, by, err := i.check(ctx)
	if err != nil {
		return err
	}
	if by == servedByServer {
		if finished, err := i.isFinished(ctx, defined); err != nil || finished {
			return err
		}
	}
	if !i.DryRun {
		i.Report.Step("Keep metal3-apiserver from managing hosts")
		if err := i.Cluster.holdLease(ctx, i.Lease); err != nil {
			return err
		}
		i.Report.Done("Lease %s is held", i.Lease)
	}
	switch {
	case !i.switches():
		return i.copyObjects(ctx, defined)
	case by == servedByCRDs:
		if err := i.switchOver(ctx, defined); err != nil || i.DryRun {
			return err
		}
	default:
		i.Report.Step("Continue a switch that was interrupted")
		if i.DryRun {
			i.Report.Done("would stop serving %s from the CRDs, and verify", storedVersion)
			return nil
		}
		if err := i.Cluster.setServed(ctx, defined, false); err != nil {
			return err
		}
		i.Report.Done("the CRDs no longer serve %s", storedVersion)
	}
	return i.verify(ctx, defined)
}

func (i *Import) switches() bool { return i.Switch || i.Verify }

// isFinished reports whether an earlier run has completed the switch, and prints that.
func (i *Import) isFinished(ctx context.Context, defined []*Kind) (bool, error) {
	held, err := i.Cluster.isLeaseHeld(ctx, i.Lease)
	if err != nil || held {
		return false, err
	}
	begun, err := i.Cluster.hasMigrationVersion(ctx, defined)
	if err != nil || begun {
		return false, err
	}
	i.Report.Done("this cluster has been switched, and metal3-apiserver may manage its hosts: nothing is left to do")
	return true, nil
}

// check refuses to import from a cluster in which something else would interfere, before
// anything is done. It returns the kinds that have a CRD, and what serves the group.
func (i *Import) check(ctx context.Context) (defined []*Kind, by handler, err error) {
	i.Report.Step("Check the cluster")
	var refuse refusals
	if by, defined, err = i.Cluster.check(ctx, i.Target, i.kinds, &refuse); err != nil {
		return nil, "", err
	}
	switch {
	case by == servedByServer && !i.switches():
		refuse.add("this cluster has been switched already: APIService %s points to metal3-apiserver. To continue a switch, run import --switch; to go back, run export", apiServiceName)
	case by == servedByCRDs && i.Verify:
		refuse.add("this cluster has not been switched: run import --switch")
	case by == servedByCRDs && i.Switch && len(i.Target.CA) == 0:
		refuse.add("--apiservice-ca-file is required: kube-apiserver must know which authority signed metal3-apiserver's certificate")
	}
	if len(defined) == 0 {
		refuse.add("the cluster has no CRDs of the group metal3.io")
	}
	if err := refuse.err("objects cannot be imported from this cluster in its current state"); err != nil {
		return nil, "", err
	}
	i.Report.Done("metal3.io/%s is served by %s; %d of %d kinds have a CRD", storedVersion, by, len(defined), len(i.kinds))
	i.Report.Done("no operator is running, and none of its webhooks is configured")
	return defined, by, nil
}

// copyObjects makes the store the same as the CRDs.
func (i *Import) copyObjects(ctx context.Context, defined []*Kind) error {
	store, err := i.OpenStore(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	i.Report.Step("Copy the custom resources into the store of metal3-apiserver")
	sources, all, err := i.compareAll(ctx, defined, store)
	if err != nil {
		return err
	}
	if err := i.refuseUnknown(sources); err != nil {
		return err
	}
	if err := i.refuseForeign(all); err != nil {
		return err
	}
	for _, kind := range defined {
		for _, obj := range sortedObjects(sources[kind.Resource]) {
			for _, text := range store.ValidationErrors(ctx, obj) {
				i.Report.Warn("%s is imported as it is, though it would not be accepted now: %s", obj, text)
			}
		}
	}
	if err := i.foresee(ctx, sources); err != nil {
		return err
	}
	did := "copied"
	if i.DryRun {
		did = "would copy"
	} else if err := i.write(ctx, store, all); err != nil {
		return err
	}
	i.Report.Done("%s: %s", did, counts(all, func(c *comparison) int { return len(c.missing) }))
	i.Report.Done("%s again because they changed: %s", did, counts(all, func(c *comparison) int { return len(c.changed) + len(c.replaced) }))
	i.Report.Done("already the same: %s", counts(all, func(c *comparison) int { return c.equal }))
	if i.DryRun {
		return nil
	}

	i.Report.Step("Compare")
	if _, all, err = i.compareAll(ctx, defined, store); err != nil {
		return err
	}
	if err := i.requireSame(all, "objects were written while they were being copied (it is best to stop CAPM3 and other clients): run import again"); err != nil {
		return err
	}
	i.Report.Done("next: metal3-apiserver import --switch")
	return nil
}

// foresee tells the user what metal3-apiserver will do with the hosts, while nothing is switched yet.
func (i *Import) foresee(ctx context.Context, sources map[string]Objects) error {
	if i.Foresee == nil {
		return nil
	}
	var hosts []*v1alpha1.BareMetalHost
	for _, objects := range sources {
		for _, obj := range sortedObjects(objects) {
			if host, is := obj.typed.(*v1alpha1.BareMetalHost); is {
				hosts = append(hosts, host)
			}
		}
	}
	problems, first, err := i.Foresee(ctx, hosts)
	if err != nil {
		return err
	}
	for _, text := range problems {
		i.Report.Warn("%s", text)
	}
	for _, text := range first {
		i.Report.Done("at first: %s", text)
	}
	return nil
}

func (i *Import) write(ctx context.Context, store *Store, all []*comparison) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	for _, c := range all {
		for _, obj := range c.toWrite() {
			group.Go(func() error { return store.Put(ctx, obj) })
		}
		for _, obj := range c.extra { // refused earlier, unless Replace is set
			i.Report.Done("%s is removed from the store", obj)
			group.Go(func() error { return store.Remove(ctx, obj) })
		}
	}
	return group.Wait()
}

// switchOver makes metal3-apiserver serve the group instead of the CRDs.
func (i *Import) switchOver(ctx context.Context, defined []*Kind) error {
	store, err := i.OpenStore(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	i.Report.Step("Compare again")
	sources, all, err := i.compareAll(ctx, defined, store)
	if err != nil {
		return err
	}
	if err := i.refuseUnknown(sources); err != nil {
		return err
	}
	if err := i.requireSame(all, "the store of metal3-apiserver differs from the CRDs: run import again without --switch"); err != nil {
		return err
	}
	if i.DryRun {
		i.Report.Done("would point APIService %s to %s/%s, and stop serving %s from the CRDs", apiServiceName, i.Target.Namespace, i.Target.Name, storedVersion)
		return nil
	}

	i.Report.Step("Switch")
	if err := i.Cluster.recordCopied(ctx, i.Lease, sources); err != nil {
		return err
	}
	if err := i.Cluster.addMigrationVersion(ctx, defined); err != nil {
		return err
	}
	if err := i.Cluster.routeToServer(ctx, i.Target); err != nil {
		return err
	}
	i.Report.Done("APIService %s points to %s/%s", apiServiceName, i.Target.Namespace, i.Target.Name)
	if err := i.Cluster.setServed(ctx, defined, false); err != nil {
		return err
	}
	i.Report.Done("the CRDs no longer serve %s", storedVersion)
	if err := i.copyLateChanges(ctx, defined, sources, store); err != nil {
		return err
	}
	// As long as metal3-apiserver is not running, discovery would show clients only the
	// migration version, and they would use it.
	return i.Cluster.removeMigrationVersion(ctx, defined)
}

// copyLateChanges copies what was written to the CRDs after the comparison and before
// clients could no longer reach them. What they have written to metal3-apiserver since then
// is later, and stays.
func (i *Import) copyLateChanges(ctx context.Context, defined []*Kind, before map[string]Objects, store *Store) error {
	copied := map[string]Objects{}
	for _, kind := range defined {
		now, err := i.Cluster.customResources(ctx, kind, migrationVersion)
		if err != nil {
			return err
		}
		copied[kind.Resource] = now
		for _, obj := range sortedObjects(now) {
			was := before[kind.Resource][obj.Key]
			if was != nil && was.ResourceVersion == obj.ResourceVersion {
				continue
			}
			err := store.PutOver(ctx, obj, was)
			if err := i.reportLate(err, obj, "was written during the switch; it is copied too"); err != nil {
				return err
			}
		}
		for _, obj := range sortedObjects(before[kind.Resource]) {
			if now[obj.Key] == nil {
				err := store.RemoveLeft(ctx, obj)
				if err := i.reportLate(err, obj, "was deleted during the switch; it is deleted from the store too"); err != nil {
					return err
				}
			}
		}
	}
	return i.Cluster.recordCopied(ctx, i.Lease, copied)
}

// reportLate says what has become of a late change.
func (i *Import) reportLate(err error, obj *Object, done string) error {
	switch {
	case errors.Is(err, errStoredChanged):
		i.Report.Warn("%s was changed in the CRDs during the switch, and then in metal3-apiserver, where it is left as it is", obj)
	case err != nil:
		return err
	default:
		i.Report.Done("%s %s", obj, done)
	}
	return nil
}
