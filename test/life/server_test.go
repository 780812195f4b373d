// SPDX-License-Identifier: Apache-2.0

package life

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/metal3-io/metal3-apiserver/pkg/generated/clientset/versioned"
	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// ownServer is a server beside the suite's, with flags, hosts and a Lease of its own.
// Its hosts are not those of kube-apiserver; its Secrets are, and the Ironic.
type ownServer struct {
	t      *testing.T
	ctx    context.Context
	ns     string
	server *testbed.Server
	hosts  versioned.Interface
	// machines are those behind the hosts, by the hosts' names.
	machines map[string]*bmcsim.Machine
}

// newOwnServer makes one that is not started yet.
func newOwnServer(t *testing.T, ctx context.Context, args ...string) *ownServer {
	t.Helper()
	o := &ownServer{t: t, ctx: ctx, ns: s.NewNamespace(t, ctx), machines: map[string]*bmcsim.Machine{}}
	o.server, o.hosts = s.NewServer(t, ctx, o.ns, testbed.ServerOptions{
		IronicEndpoint: s.ironic.Endpoint,
		Args: append([]string{
			"--v=2",
			"--deploy-kernel-url=" + s.machines.FileURL(bmcsim.KernelFile),
			"--deploy-ramdisk-url=" + s.machines.FileURL(bmcsim.RamdiskFile),
			"--deploy-iso-url=" + s.machines.FileURL(bmcsim.AgentISO),
		}, args...),
	})
	return o
}

func (o *ownServer) start() {
	o.t.Helper()
	if err := o.server.Start(o.ctx); err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(o.end)
}

// startOwnServer is newOwnServer, and starts it, with a time limit for the test.
func startOwnServer(t *testing.T, args ...string) *ownServer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 6*testbed.Patience)
	t.Cleanup(cancel)
	o := newOwnServer(t, ctx, args...)
	o.start()
	return o
}

// end ends the server, takes what it made out of Ironic, for the other tests to
// have Ironic to themselves, and shows the log of a failure.
func (o *ownServer) end() {
	ctx, cancel := context.WithTimeout(context.Background(), testbed.Patience)
	defer cancel()
	if o.t.Failed() {
		hosts := o.describe(ctx)
		// A summary of the test's output may have nothing but its last lines.
		defer func() { o.t.Logf("hosts when the test failed:\n%s", hosts) }()
	}
	if _, err := o.server.Stop(); err != nil {
		o.t.Error(err)
	}
	if log, err := o.server.Logs(); err == nil && o.t.Failed() {
		o.t.Logf("log of the server:\n%s", log)
	}
	operator := s.ironic.Operator()
	for _, name := range slices.Sorted(maps.Keys(o.machines)) {
		node := o.ns + "~" + name
		err := operator.SetMaintenance(ctx, node, true, "the test is over") // then any state lets go of it
		if err == nil {
			err = operator.DeleteNode(ctx, node)
		}
		if err != nil && !testbed.IsNotFound(err) {
			o.t.Errorf("removing %s: %v", node, err)
		}
		o.machines[name].SetPower(bmcsim.Off)
	}
}

// describe returns a line for each host.
func (o *ownServer) describe(ctx context.Context) string {
	list, err := o.hosts.Metal3V1alpha1().BareMetalHosts(o.ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	var lines []string
	for _, bmh := range list.Items {
		lines = append(lines, describe(&bmh))
	}
	return strings.Join(lines, "\n")
}

// newHost makes a machine, its Secret and its host on this server.
func (o *ownServer) newHost(name string, options ...option) *host {
	o.t.Helper()
	h := newHostOn(o.t, o.ctx, o.hosts, o.ns, name, options...)
	o.machines[name] = h.machine
	return h
}
