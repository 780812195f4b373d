package ironic

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// Nodes lists what an Ironic has.
type Nodes interface {
	// ListNodes returns all nodes.
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

// awayError is why an Ironic cannot be asked.
type awayError struct {
	name string // of the IronicInstance
	err  error
}

func (e awayError) Error() string {
	if e.name == "" {
		return "Ironic cannot be asked: " + ironic.ReasonOf(e.err)
	}
	return fmt.Sprintf("the Ironic of IronicInstance %q cannot be asked: %s", e.name, ironic.ReasonOf(e.err))
}

// unavailable returns the 503 for a request that the Ironics which are away might answer.
func unavailable(away []awayError) error {
	reasons := make([]string, len(away))
	for i, a := range away {
		reasons[i] = a.Error()
	}
	return apierrors.NewServiceUnavailable(strings.Join(reasons, "; "))
}

// answer is what an Ironic has answered.
type answer struct {
	name  string // of the IronicInstance
	nodes []ironic.Node
	ports []ironic.Port
}

// askAll asks all Ironics at the same time. It returns what those have answered that could be asked, in their order, and why
// the others could not.
func askAll(ctx context.Context, ironics []NamedNodes) (answers []answer, away []awayError) {
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
			away = append(away, awayError{in.Name, errs[i]})
		} else {
			answers = append(answers, all[i])
		}
	}
	return answers, away
}

func ask(ctx context.Context, in NamedNodes) (answer, error) {
	nodes, err := in.ListNodes(ctx)
	if err != nil {
		return answer{}, err
	}
	ports, err := in.ListPorts(ctx, ironic.PortFilter{})
	return answer{in.Name, nodes, ports}, err
}
