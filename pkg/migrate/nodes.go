// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// awaitNodes returns what metal3-apiserver serves of a kind that has these custom resources. It refuses hosts if their nodes are
// in Ironic for none of them: it is probably another one than the operator's, and all hosts would be registered in it
// while their own goes on to manage the machines.
func (i *Import) awaitNodes(ctx context.Context, kind *Kind, resources Objects) (live Objects, err error) {
	var lost []string
	look := func(ctx context.Context) (err error) {
		if live, err = i.Cluster.customResources(ctx, kind, storedVersion); err != nil {
			return err
		}
		var found bool
		if lost, found = lostNodes(resources, live); len(lost) > 0 && !found && !i.LostNodes {
			return noNodesError(lost)
		}
		return nil
	}
	var none noNodesError
	if err = look(ctx); errors.As(err, &none) {
		err = poll(ctx, i.Wait, look) // the server may not have reached Ironic yet
	}
	if err != nil {
		return nil, err
	}
	for _, text := range lost {
		i.Report.Warn("%s is not in Ironic: the host will be registered again", text)
	}
	return live, nil
}

// lostNodes returns the hosts that the operator had registered, each with its node, and that are served without one. found
// reports whether any is served with one.
func lostNodes(resources, live Objects) (lost []string, found bool) {
	for _, obj := range sortedObjects(resources) {
		is := live[obj.Key]
		if is == nil || is.UID != obj.UID {
			continue
		}
		host, isHost := is.typed.(*v1alpha1.BareMetalHost)
		if !isHost || host.IsDetached() || host.DeletionTimestamp != nil {
			continue
		}
		id := obj.typed.(*v1alpha1.BareMetalHost).Status.Provisioning.ID
		switch {
		case host.Status.Ironic != nil:
			found = true
		case id != "":
			lost = append(lost, fmt.Sprintf("node %s of %s", id, obj))
		}
	}
	return lost, found
}

// noNodesError has all hosts that the operator had registered.
type noNodesError []string

func (e noNodesError) Error() string {
	text := fmt.Sprintf("the switch is done, but metal3-apiserver finds the nodes of none of the %d hosts in Ironic, such as %s", len(e), e[0])
	return strings.Join([]string{
		text + ", and does not manage hosts yet",
		"If it uses another Ironic than the operator did, or cannot reach it, correct its configuration (IRONIC_ENDPOINT), and run import --verify",
		"If Ironic has lost its database, run import --verify --lost-nodes: the hosts are registered in it again",
	}, ". ")
}
