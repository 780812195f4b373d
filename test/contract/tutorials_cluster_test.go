// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/metal3-io/metal3-apiserver/test/docs"
	"github.com/metal3-io/metal3-apiserver/test/ironicsim"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// operatorsPages are the tutorials that begin with an installation by kustomize, with the BMCs of the machines.
var operatorsPages = map[string][]string{
	"restore": {"192.0.2.40"}, "upgrade": {"192.0.2.60"},
}

// TestTutorialsOnACluster runs the commands of the tutorials that stop, replace or restore the server, each in a cluster of its own,
// in which testbed.Nodes stands in for nodes. Of their machines, none is written to or switched off meanwhile.
func TestTutorialsOnACluster(t *testing.T) {
	t.Parallel()
	bin := docs.BuildPlugin(t)
	for name, bmcs := range operatorsPages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			later := os.Getenv("LATER_SERVER")
			if name == "upgrade" && later == "" {
				t.Skip("a later version takes a minute to be built: hack/build-later.sh")
			}
			ctx, cancel := context.WithTimeout(t.Context(), 6*testbed.Patience)
			t.Cleanup(cancel)
			c := newCluster(t, ctx, later)
			c.install()
			for _, address := range bmcs {
				c.machines = append(c.machines, c.ironic.AddBMC("ipmi://"+address, "admin", "s3cret"))
			}
			c.follow(name, bin)
		})
	}
}

// follow runs the commands of a page, and compares what they do to the machines.
func (c *cluster) follow(name, bin string) {
	c.t.Helper()
	reader := docs.Reader{T: c.t, Ctx: c.ctx, Path: c.nodes.Bin + ":" + bin, Dir: c.dir, Kubeconfig: c.kube.Admin.Kubeconfig, Before: c.compare}
	reader.Follow("tutorials/" + name + ".md")
	if c.compared < 5 {
		c.t.Errorf("%d commands are between the first that stops the server and the last that needs its hosts", c.compared)
	}
}

// cluster is one for which somebody has followed docs/install.md, with an embedded etcd, and the folder in which they have done that.
type cluster struct {
	t      *testing.T
	ctx    context.Context
	dir    string
	kube   *testbed.Kube
	nodes  *testbed.Nodes
	ironic *testbed.SimulatedIronic

	machines []*ironicsim.BMC
	// accounts are those of the machines before the last command, from the first one on that stops the server.
	accounts []account
	last     string
	compared int
}

// account is what was done to a machine.
type account struct {
	DiskWrites []ironicsim.DiskWrite
	PowerCuts  int
}

func newCluster(t *testing.T, ctx context.Context, later string) *cluster {
	t.Helper()
	c := &cluster{t: t, ctx: ctx, dir: t.TempDir()}
	var err error
	if c.ironic, err = testbed.StartSimulatedIronic(ironicsim.Options{AutoInspect: true, AutoDeploy: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.ironic.Close)
	if c.kube, err = testbed.StartKube(ctx, testbed.KubeOptions{Dir: t.TempDir(), ControllerManager: true, Workloads: true}); err != nil {
		t.Fatal(err)
	}
	stopAtEnd(t, c.kube.Stop)
	const image = "registry.example.com/metal3-apiserver:"
	dir := t.TempDir()
	if c.nodes, err = testbed.StartNodes(testbed.NodesOptions{
		Kube: c.kube, Dir: dir, IronicEndpoint: c.ironic.URL(), Args: append([]string{"--v=2"}, testbed.UnusedRamdiskArgs...),
		Images: map[string]string{image + "v0.1.0": "", image + "v0.2.0": later},
	}); err != nil {
		t.Fatal(err)
	}
	stopAtEnd(t, c.nodes.Stop)
	c.writeFiles()
	c.kubectl("apply", "-f", "metal3-apiserver/artifacts/apiservice/namespace.yaml")
	return c
}

func (c *cluster) install() {
	c.t.Helper()
	c.kubectl("apply", "-k", "my-cluster")
	c.kubectl("wait", "--for=condition=Available", "apiservice/v1alpha1.metal3.io", "--timeout=5m")
}

// compare looks before a command whether the last one has done anything to the machines, from the first one on that stops the server to
// the one that deletes the hosts.
func (c *cluster) compare(command string) {
	c.t.Helper()
	var now []account
	for _, machine := range c.machines {
		now = append(now, account{machine.DiskWrites(), machine.PowerCuts()})
	}
	if c.accounts != nil && !strings.HasPrefix(c.last, "kubectl bmh inspect") {
		if diff := cmp.Diff(c.accounts, now); diff != "" {
			c.t.Errorf("what %s has done to the machines (-before +after):\n%s", c.last, diff)
		}
		c.compared++
	}
	c.last = command
	switch stops := strings.HasPrefix(command, "kubectl scale ") || strings.HasPrefix(command, "kubectl apply -k "); {
	case strings.HasPrefix(command, "kubectl delete baremetalhost"):
		c.accounts = nil
	case stops || c.accounts != nil:
		c.accounts = now
	}
}

func stopAtEnd(t *testing.T, stop func() error) {
	t.Helper()
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// writeFiles writes what a user has before the first command: the checkout with certificates, and the kustomization of docs/install.md.
func (c *cluster) writeFiles() {
	c.t.Helper()
	checkout := filepath.Join(c.dir, "metal3-apiserver", "artifacts")
	if err := os.CopyFS(checkout, os.DirFS("../../artifacts")); err != nil {
		c.t.Fatal(err)
	}
	mine, err := docs.Kustomization(map[string]string{
		"artifacts/apiservice ": "artifacts/apiservice/overlays/quick-start ", "REGISTRY": "registry.example.com", "digest: sha256:0123...": "newTag: v0.1.0",
	})
	if err != nil {
		c.t.Fatal(err)
	}
	// With the embedded etcd, there are no ETCD_SERVERS.
	kustomization := regexp.MustCompile(`(?m)^.*ETCD_SERVERS.*$`).ReplaceAllString(mine, "")
	if err := errors.Join(
		c.nodes.WriteCertificates(filepath.Join(checkout, "apiservice", "components", "self-signed")),
		os.Mkdir(filepath.Join(c.dir, "my-cluster"), 0o755),
		os.WriteFile(filepath.Join(c.dir, "my-cluster", "kustomization.yaml"), []byte(kustomization), 0o644),
	); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) kubectl(args ...string) {
	c.t.Helper()
	cmd := c.kube.Admin.KubectlCommand(c.ctx, args...)
	cmd.Dir = c.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		c.t.Fatalf("kubectl %s: %v: %s", strings.Join(args, " "), err, out)
	}
}
