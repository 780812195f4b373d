package migrate

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
)

// Import takes the objects of a cluster's CRDs over.
type Import struct {
	Cluster *Cluster
	// OpenStore opens what our server stores its objects in.
	OpenStore func(context.Context) (*Store, error)
	Report    *Report
	// Lease is that of our server's leader.
	Lease types.NamespacedName
	// Target is where our server will be found.
	Target Target

	// Switch has our server serve the group, once everything is copied.
	Switch bool
	// DryRun changes nothing.
	DryRun bool
	// DropUnknownFields loses fields that our types do not have.
	DropUnknownFields bool
	// Replace has the store become what the CRDs are, whatever it holds.
	Replace bool
	// Wait is how long our server may take to answer after the switch.
	Wait time.Duration

	kinds []*Kind
}

// Run goes as far as it can, from wherever an earlier run has come to.
func (i *Import) Run(ctx context.Context) (err error) {
	if i.kinds, err = Kinds(i.Cluster.scheme); err != nil {
		return err
	}
	defined, by, err := i.check(ctx)
	if err != nil {
		return err
	}
	if by == byOurs {
		if finished, err := i.isFinished(ctx, defined); err != nil || finished {
			return err
		}
	}
	if !i.DryRun {
		i.Report.Step("Keep metal3-apiserver from driving hosts")
		if err := i.Cluster.hold(ctx, i.Lease); err != nil {
			return err
		}
		i.Report.Done("Lease %s is held", i.Lease)
	}
	switch {
	case !i.Switch:
		return i.copy(ctx, defined)
	case by == byCRDs:
		if err := i.switchOver(ctx, defined); err != nil || i.DryRun {
			return err
		}
	default:
		i.Report.Step("Go on with a switch that was begun")
		if i.DryRun {
			i.Report.Done("would stop serving %s from the CRDs, and verify", ours)
			return nil
		}
		if err := i.Cluster.serve(ctx, defined, false); err != nil {
			return err
		}
		i.Report.Done("the CRDs do not serve %s", ours)
	}
	return i.verify(ctx, defined)
}

// isFinished tells whether an earlier switch has come to its end, and says so.
func (i *Import) isFinished(ctx context.Context, defined []*Kind) (bool, error) {
	held, err := i.Cluster.holds(ctx, i.Lease)
	if err != nil || held {
		return false, err
	}
	begun, err := i.Cluster.isAside(ctx, defined)
	if err != nil || begun {
		return false, err
	}
	i.Report.Done("this cluster is switched, and metal3-apiserver may drive its hosts: nothing is left to do")
	return true, nil
}

// check looks at everything that would have to be otherwise, before anything is done.
func (i *Import) check(ctx context.Context) (defined []*Kind, by handler, err error) {
	i.Report.Step("Check the cluster")
	var refuse refusals
	by, service, err := i.Cluster.servedBy(ctx, i.Target)
	if err != nil {
		return nil, "", err
	}
	switch {
	case by == byOthers:
		refuse.add("APIService %s names the Service %s, which is neither the CRDs nor %s/%s: who is that?", apiServiceName, service, i.Target.Namespace, i.Target.Name)
	case by == byOurs && !i.Switch:
		refuse.add("this cluster is switched already: APIService %s names metal3-apiserver. import --switch goes on with a switch, export is the way back", apiServiceName)
	case by == byCRDs && i.Switch && len(i.Target.CA) == 0:
		refuse.add("--apiservice-ca-file is missing: kube-apiserver has to know who signs metal3-apiserver's certificate")
	}
	if defined, err = i.Cluster.definedKinds(ctx, i.kinds, &refuse); err != nil {
		return nil, "", err
	}
	if len(defined) == 0 {
		refuse.add("the cluster has no CRD of metal3.io")
	}
	if err := i.Cluster.checkOperator(ctx, &refuse); err != nil {
		return nil, "", err
	}
	if err := i.Cluster.checkWebhooks(ctx, &refuse); err != nil {
		return nil, "", err
	}
	if err := refuse.err("this cluster cannot be imported from as it is"); err != nil {
		return nil, "", err
	}
	i.Report.Done("metal3.io/%s is served by %s; %d of %d kinds have a CRD", ours, by, len(defined), len(i.kinds))
	i.Report.Done("no operator is running, and none of its webhooks is configured")
	return defined, by, nil
}

// copy makes our store what the CRDs are.
func (i *Import) copy(ctx context.Context, defined []*Kind) error {
	store, err := i.OpenStore(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	i.Report.Step("Copy the custom resources into our store")
	sources, all, err := i.compareAll(ctx, defined, ours, store)
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
			for _, text := range store.Refusals(ctx, obj) {
				i.Report.Warn("%s is imported as it is, though it would not be accepted now: %s", obj, text)
			}
		}
	}
	did := "copied"
	if i.DryRun {
		did = "would copy"
	} else if err := i.write(ctx, store, all); err != nil {
		return err
	}
	i.Report.Done("%s: %s", did, counts(all, func(c *comparison) int { return len(c.missing) }))
	i.Report.Done("%s again, as they have changed: %s", did, counts(all, func(c *comparison) int { return len(c.changed) + len(c.replaced) }))
	i.Report.Done("the same already: %s", counts(all, func(c *comparison) int { return c.equal }))
	if i.DryRun {
		return nil
	}

	i.Report.Step("Compare")
	if _, all, err = i.compareAll(ctx, defined, ours, store); err != nil {
		return err
	}
	var refuse refusals
	for _, c := range all {
		c.differences(&refuse)
	}
	if err := refuse.err("somebody has written while the objects were copied (CAPM3 and other clients are best stopped): run import again"); err != nil {
		return err
	}
	i.Report.Done("all UIDs and contents are the same: %s", counts(all, func(c *comparison) int { return c.equal }))
	i.Report.Done("next: metal3-apiserver import --switch")
	return nil
}

func (i *Import) write(ctx context.Context, store *Store, all []*comparison) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	for _, c := range all {
		for _, obj := range c.toWrite() {
			group.Go(func() error { return store.Put(ctx, obj) })
		}
		for _, obj := range c.extra { // only with Replace
			i.Report.Done("%s is removed from our store", obj)
			group.Go(func() error { return store.Remove(ctx, obj) })
		}
	}
	return group.Wait()
}

// switchOver hands the group over to our server.
func (i *Import) switchOver(ctx context.Context, defined []*Kind) error {
	store, err := i.OpenStore(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	i.Report.Step("Compare once more")
	sources, all, err := i.compareAll(ctx, defined, ours, store)
	if err != nil {
		return err
	}
	if err := i.refuseUnknown(sources); err != nil {
		return err
	}
	var refuse refusals
	for _, c := range all {
		c.differences(&refuse)
	}
	if err := refuse.err("our store is not what the CRDs are: run import again, without --switch"); err != nil {
		return err
	}
	i.Report.Done("all UIDs and contents are the same: %s", counts(all, func(c *comparison) int { return c.equal }))
	if i.DryRun {
		i.Report.Done("would point APIService %s to %s/%s, and stop serving %s from the CRDs", apiServiceName, i.Target.Namespace, i.Target.Name, ours)
		return nil
	}

	i.Report.Step("Switch")
	if err := i.Cluster.openAside(ctx, defined); err != nil {
		return err
	}
	if err := i.Cluster.pointTo(ctx, i.Target); err != nil {
		return err
	}
	i.Report.Done("APIService %s names %s/%s", apiServiceName, i.Target.Namespace, i.Target.Name)
	if err := i.Cluster.serve(ctx, defined, false); err != nil {
		return err
	}
	i.Report.Done("the CRDs do not serve %s", ours)
	if err := i.takeLate(ctx, defined, sources, store); err != nil {
		return err
	}
	// While our server is not up, clients that look for kinds would find the version
	// aside alone, and go by it.
	return i.Cluster.closeAside(ctx, defined)
}

// takeLate takes over what was written to the CRDs after the last comparison and
// before they were out of reach.
func (i *Import) takeLate(ctx context.Context, defined []*Kind, before map[string]Objects, store *Store) error {
	for _, kind := range defined {
		now, err := i.Cluster.customResources(ctx, kind, aside)
		if err != nil {
			return err
		}
		for _, obj := range sortedObjects(now) {
			if was := before[kind.Resource][obj.Key]; was != nil && was.ResourceVersion == obj.ResourceVersion {
				continue
			}
			if err := store.Put(ctx, obj); err != nil {
				return err
			}
			i.Report.Done("%s was written during the switch; that is taken over too", obj)
		}
		for _, obj := range sortedObjects(before[kind.Resource]) {
			if now[obj.Key] == nil {
				if err := store.Remove(ctx, obj); err != nil {
					return err
				}
				i.Report.Done("%s was deleted during the switch; that is taken over too", obj)
			}
		}
	}
	return nil
}

// verify asks kube-apiserver, as any client would, for what the CRDs had.
func (i *Import) verify(ctx context.Context, defined []*Kind) error {
	i.Report.Step("Verify through kube-apiserver")
	if err := i.Cluster.waitAvailable(ctx, i.Wait); err != nil {
		return fmt.Errorf("the switch is done, and metal3-apiserver does not answer yet (%w): start it, kubectl scale deployment -n %s %s --replicas=1 (or more), "+
			"and run import --switch again to have it verified; until then it drives no hosts", err, i.Target.Namespace, i.Target.Name)
	}
	if err := i.Cluster.openAside(ctx, defined); err != nil {
		return err
	}
	var refuse refusals
	served := ""
	for _, kind := range defined {
		resources, err := i.Cluster.customResources(ctx, kind, aside)
		if err != nil {
			return err
		}
		live, err := i.Cluster.customResources(ctx, kind, ours)
		if err != nil {
			return err
		}
		for _, obj := range sortedObjects(resources) {
			switch is := live[obj.Key]; {
			case is == nil:
				refuse.add("%s is not served", obj)
			case is.UID != obj.UID:
				refuse.add("%s is served with UID %s, and not %s", obj, is.UID, obj.UID)
			default:
				// The status is live. The rest is the same, unless an earlier run was killed.
				if path := difference(obj.wish(), is.wish()); path != "" {
					i.Report.Warn("%s differs in %s from what the CRDs have: it was written after the switch, or to the CRDs while an earlier run switched", obj, path)
				}
			}
		}
		if n := len(live); n > 0 {
			served += fmt.Sprintf(", %d %s", n, kind.Resource)
		}
	}
	if err := refuse.err("what is served is not what the CRDs have"); err != nil {
		return err
	}
	i.Report.Done("served with the UIDs that they had%s", served)

	i.Report.Step("Finish")
	if err := i.Cluster.closeAside(ctx, defined); err != nil {
		return err
	}
	if err := i.Cluster.release(ctx, i.Lease); err != nil {
		return err
	}
	i.Report.Done("metal3-apiserver drives the hosts from now on")
	i.Report.Done("next: restart CAPM3 and whoever else watches metal3.io: resourceVersions are of another etcd now")
	return nil
}
