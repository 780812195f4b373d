// SPDX-License-Identifier: Apache-2.0

package enginetest

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/redact"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/events"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/kinds"
)

// Ironics are those that there are, by the names of their IronicInstances; that of the server's flags has no name.
type Ironics[I any] map[string]I

// Of returns the Ironic of a host.
func (i Ironics[I]) Of(host *metal3.BareMetalHost) (client I, err error) {
	if client, known := i[host.Status.Record.Ironic]; known {
		return client, nil
	}
	return client, &ironic.UnavailableError{Op: "find the Ironic", Reason: "IronicInstance " + host.Status.Record.Ironic + " does not exist"}
}

// NodesOf are the nodes of Ironics. They are those of their hosts, unless the test says why they are not.
func NodesOf[I kinds.NodeGetter](ironics Ironics[I], unproven *string) kinds.Nodes[I] {
	prove := func(context.Context, *metal3.BareMetalHost, *ironic.Node) (string, error) { return *unproven, nil }
	return kinds.Nodes[I]{Ironic: ironics.Of, Prove: prove, Guard: Guard, Fence: ironic.NoFence}
}

// Hang is what a request to an Ironic that does not answer ends with.
func Hang(ctx context.Context) error {
	<-ctx.Done()
	return ironic.NewUnavailableError("get node", ctx.Err(), time.Minute)
}

// Password is the password of the BMC of each host, according to Guard.
const Password = "tr0ub4dor&3"

// Guard returns a context for requests about a host, in whose errors there is no Password.
func Guard(ctx context.Context, _ *metal3.BareMetalHost) context.Context {
	return redact.With(ctx, func(context.Context) (redact.Known, error) { return redact.Known{Secrets: []string{Password}}, nil })
}

// UnknownCluster is the UID of a cluster that has not been asked for it yet.
func UnknownCluster() string { return "" }

// NoEvents records no events.
type NoEvents struct{}

// RecordObject does nothing.
func (NoEvents) RecordObject(*corev1.ObjectReference, events.Event) {}

// Requested does nothing.
func (NoEvents) Requested(_ *metal3.BareMetalHost, _, _ string) {}

// HangsAlone runs a controller with hosts like the given one, of which all but the last are in an Ironic "room-b", which the test has
// hang. It calls check when nothing happens any more: what is to be done for the last one has been done. All of this is in a bubble of
// synctest.
func HangsAlone(t *testing.T, host *metal3.BareMetalHost, many int, start func(hosts []*metal3.BareMetalHost) (run func(context.Context) error), check func()) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var hosts []*metal3.BareMetalHost
		for i := range many + 1 {
			host := host.DeepCopy()
			host.Name = fmt.Sprintf("worker-%02d", i)
			if i < many {
				host.Status.Record.Ironic = "room-b"
			}
			hosts = append(hosts, host)
		}
		ctx, cancel := context.WithCancel(t.Context())
		run, ended := start(hosts), make(chan error)
		go func() { ended <- run(ctx) }()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		check()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
