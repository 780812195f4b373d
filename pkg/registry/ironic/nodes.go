// SPDX-License-Identifier: Apache-2.0

package ironic

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/live/flight"
)

// Nodes reads what an Ironic has. It has to be comparable.
type Nodes interface {
	// GetNode returns the node of a UUID, or of a name.
	GetNode(ctx context.Context, idOrName string) (*ironic.Node, error)
	// ListNodes returns all nodes. Those that the Ironic cannot show are Unreadable.
	ListNodes(ctx context.Context) ([]ironic.Node, error)
	// ListPorts returns the ports that match.
	ListPorts(ctx context.Context, filter ironic.PortFilter) ([]ironic.Port, error)
}

// NamedNodes are what one of the Ironics has.
type NamedNodes struct {
	Nodes
	// Name is that of the IronicInstance; empty for the Ironic of the server's flags.
	Name string
}

// readTimeout is how long the Ironics may take to list their nodes and ports.
const readTimeout = 15 * time.Second

// awayError is why an Ironic cannot be asked, or not about all of its nodes.
type awayError struct {
	name       string // of the IronicInstance
	err        error
	unreadable int // how many nodes it cannot show, if it can be asked
}

func (e awayError) Error() string {
	subject := "Ironic"
	if e.name != "" {
		subject = fmt.Sprintf("the Ironic of IronicInstance %q", e.name)
	}
	if e.unreadable > 0 {
		return fmt.Sprintf("%s fails to show %d of its nodes: its log has the reason", subject, e.unreadable)
	}
	return fmt.Sprintf("%s cannot be asked: %s", subject, ironic.ReasonOf(e.err))
}

// unavailable returns the 503 for a request that the Ironics which are away might answer.
func unavailable(away []awayError) error {
	reasons := make([]string, len(away))
	for i, a := range away {
		reasons[i] = a.Error()
	}
	return apierrors.NewServiceUnavailable(strings.Join(reasons, "; "))
}

// answer is what an Ironic has answered. Several readers may share it.
type answer struct {
	name  string // of the IronicInstance
	nodes []ironic.Node
	ports []ironic.Port
}

// askAll asks all Ironics at the same time, each with ask. It returns what those have answered that could be asked, in their order, and why
// the others could not, or not about all of their nodes.
func askAll(ctx context.Context, ironics []NamedNodes, ask func(context.Context, NamedNodes) (answer, error)) (answers []answer, away []awayError) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	all, errs := make([]answer, len(ironics)), make([]error, len(ironics))
	var asking sync.WaitGroup
	for i, in := range ironics {
		asking.Go(func() { all[i], errs[i] = ask(ctx, in) })
	}
	asking.Wait()
	for i, in := range ironics {
		if errs[i] != nil {
			away = append(away, awayError{name: in.Name, err: errs[i]})
			continue
		}
		answer := &all[i]
		read := slices.DeleteFunc(slices.Clone(answer.nodes), func(n ironic.Node) bool { return n.Unreadable != "" })
		if unreadable := len(answer.nodes) - len(read); unreadable > 0 {
			away = append(away, awayError{name: in.Name, unreadable: unreadable})
		}
		answer.nodes = read
		answers = append(answers, *answer)
	}
	return answers, away
}

// listings are what readers of all nodes wait for, one at a time of each Ironic: thousands of nodes and their ports take long.
type listings = flight.Group[NamedNodes, answer]

// newListings returns listings that are cancelled when ctx ends.
func newListings(ctx context.Context) *listings {
	return flight.NewGroup(ctx, flight.Config[NamedNodes, answer]{
		Clock: clock.RealClock{}, ObserveOne: listAll, AllIsCheaper: func(int) bool { return false }, MaxOnes: math.MaxInt, OneTimeout: readTimeout,
	})
}

// listAll lists all nodes and ports of an Ironic.
func listAll(ctx context.Context, in NamedNodes) (answer, error) {
	nodes, err := in.ListNodes(ctx)
	if err != nil {
		return answer{}, err
	}
	ports, err := in.ListPorts(ctx, ironic.PortFilter{})
	return answer{in.Name, nodes, ports}, err
}

// getOne reads one node of an Ironic, if it has the node, and its ports.
func getOne(ctx context.Context, in NamedNodes, uuid string) (answer, error) {
	none := answer{name: in.Name}
	node, err := in.GetNode(ctx, uuid)
	if err == nil && node.UUID != uuid {
		return none, nil // it is the name of that node
	}
	var ports []ironic.Port
	if err == nil {
		ports, err = in.ListPorts(ctx, ironic.PortFilter{Node: uuid})
	}
	switch {
	case ironic.IsNotFound(err), ironic.IsBadRequest(err): // the latter is for what cannot be a UUID or a name
		return none, nil
	case err != nil:
		return none, err
	}
	return answer{in.Name, []ironic.Node{*node}, ports}, nil
}
