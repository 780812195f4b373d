// SPDX-License-Identifier: Apache-2.0

package life

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/generated/clientset/versioned"
	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// TestKeystone has an Ironic whose users are in Keystone. One server uses it with an application
// credential, which belongs to a project, then as a user who has no role for Ironic, as an administrator of
// another project, and with system scope. It takes up each change of clouds.yaml with its next token, for which the test revokes the
// one before.
//
// It is not parallel to the other tests: Keystone, Ironic and each login are slow with thirty machines beside them.
func TestKeystone(t *testing.T) {
	k := startKeystone(t)

	// An application credential, in a deployment during which a token ends.
	k.use("installer", k.applicationCredential("installer", "metal", "admin"))
	k.start()
	h := k.newHost(notInspected, notCleaned)
	if node := h.available().Status.Ironic; node.BMC == "" || strings.Contains(fmt.Sprint(*node), "Redacted") {
		t.Errorf("Ironic conceals the node from the project that owns it: %+v", *node)
	}
	if node := k.node(h); node.Owner != k.projects["metal"] {
		t.Errorf("the node is owned by %q, want the project of the credential, %q", node.Owner, k.projects["metal"])
	}
	image, before := h.deploying(), k.logins()
	k.revoke("installer")
	h.eventually(func() string {
		if k.logins() > before {
			return ""
		}
		return "the server did not log in again during the deployment"
	})
	image.release()
	h.provisioned()

	if _, err := k.keystone.CreateRole(k.ctx, "bystander"); err != nil {
		t.Fatal(err)
	}
	// A user with a role that Ironic's policy does not know. For such a user, Ironic has no node: it
	// answers a GET of one with 404. The host must not believe that.
	k.use("nobody", k.user("nobody", "bystander", "metal"))
	bmh := h.wait("says that Ironic refuses the server", func(bmh *metal3.BareMetalHost) bool {
		c := meta.FindStatusCondition(bmh.Status.Conditions, metal3.IronicReachableCondition)
		return c != nil && c.Status == metav1.ConditionFalse && strings.Contains(c.Message, "baremetal:node:list") && strings.Contains(c.Message, "403")
	})
	if s := bmh.Status; s.Ironic == nil || s.Provisioning.State != metal3.StateProvisioned || !s.PoweredOn {
		t.Errorf("what was recorded is lost: %+v", s)
	}

	if s.release != "bookworm" { // in Ironic 21.4, an administrator of any project is an administrator of all projects
		k.strangerLeavesItAlone(h)
	}

	// System scope, which sees the nodes of all projects.
	k.use("operator", k.user("operator", "admin", testbed.System))
	h.wait("registered again", func(bmh *metal3.BareMetalHost) bool {
		return isIn(metal3.StateProvisioned)(bmh) && meta.IsStatusConditionTrue(bmh.Status.Conditions, metal3.RegisteredCondition)
	})
	h.patch(`{"spec":{"online":false}}`)
	h.power(bmcsim.Off)
	h.wrote(1)
}

// strangerLeavesItAlone has the server be an administrator of another project, for whom Ironic has no node
// either. The machine is left alone.
func (k *keystoneBed) strangerLeavesItAlone(h *host) {
	k.t.Helper()
	k.use("stranger", k.user("stranger", "admin", "other"))
	h.wait("says that its node is concealed", func(bmh *metal3.BareMetalHost) bool {
		c := meta.FindStatusCondition(bmh.Status.Conditions, metal3.RegisteredCondition)
		return c != nil && c.Status == "False" && strings.Contains(c.Message, "conceals it from the server")
	})
	if h.machine.Power() != bmcsim.On || h.machine.Running() != bmcsim.RunningDisk {
		k.t.Errorf("the machine is %s and runs %v", h.machine.Power(), h.machine.Running())
	}
}

// keystoneBed is an Ironic with a Keystone, machines and a server of its own.
type keystoneBed struct {
	t        *testing.T
	ctx      context.Context
	ns       string
	keystone *testbed.Keystone
	ironic   *testbed.DebianIronic
	machines *bmcsim.Sim
	server   *testbed.Server
	hosts    versioned.Interface
	clouds   string
	// current is the user with whose credentials the server logs in.
	current string
	// projects and users have the IDs of those that were created, by their names.
	projects, users map[string]string
}

func startKeystone(t *testing.T) *keystoneBed {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 6*testbed.Patience)
	t.Cleanup(cancel)
	dir, err := s.Dir("keystone")
	if err != nil {
		t.Fatal(err)
	}
	k := &keystoneBed{t: t, ctx: ctx, ns: s.NewNamespace(t, ctx), clouds: filepath.Join(dir, "server-clouds.yaml"), projects: map[string]string{}, users: map[string]string{}}
	fail := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	k.keystone, err = testbed.StartKeystone(ctx, dir)
	fail(err)
	t.Cleanup(func() { fail(k.keystone.Close()) })
	k.ironic, err = testbed.StartDebianIronic(ctx, testbed.IronicOptions{Release: s.release, Dir: dir, Keystone: k.keystone})
	fail(err)
	t.Cleanup(func() { fail(k.ironic.Close()) })
	k.machines, err = bmcsim.Start(bmcsim.Options{IronicURL: k.ironic.Endpoint, StepDelay: 2 * time.Second})
	fail(err)
	t.Cleanup(func() { fail(k.machines.Close()) })
	// The URL of Ironic is taken from the catalog.
	k.server, k.hosts = s.NewServer(t, ctx, k.ns, testbed.ServerOptions{Clouds: k.clouds, Args: []string{
		"--v=2",
		"--deploy-kernel-url=" + s.machines.FileURL(bmcsim.KernelFile),
		"--deploy-ramdisk-url=" + s.machines.FileURL(bmcsim.RamdiskFile),
	}})
	return k
}

func (k *keystoneBed) start() {
	k.t.Helper()
	if err := k.server.Start(k.ctx); err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() {
		if _, err := k.server.Stop(); err != nil {
			k.t.Error(err)
		}
		if log, err := k.server.Logs(); err == nil && k.t.Failed() {
			k.t.Logf("log of the server:\n%s", log)
			k.t.Logf("end of the log of Keystone:\n%s\nend of the log of Ironic:\n%s", tail(k.keystone.LogPath), tail(k.ironic.LogPath))
		}
	})
}

// tail is the last 20,000 bytes of a file, or why they cannot be read.
func tail(path string) []byte {
	content, err := os.ReadFile(path)
	if err != nil {
		return []byte(err.Error())
	}
	return content[max(0, len(content)-20_000):]
}

func (k *keystoneBed) newHost(options ...option) *host {
	k.t.Helper()
	machine, err := k.machines.AddMachine()
	if err != nil {
		k.t.Fatal(err)
	}
	return newHostOf(k.t, k.ctx, k.hosts, k.ns, "worker-0", machine, options...)
}

// use has the server log in with these credentials of a user from now on.
func (k *keystoneBed) use(user string, auth map[string]string) {
	k.t.Helper()
	if err := k.keystone.WriteClouds(k.clouds, auth); err != nil {
		k.t.Fatal(err)
	}
	if k.current != "" {
		k.revoke(k.current)
	}
	k.current = user
}

// revoke has Ironic refuse the tokens that a user has got so far.
func (k *keystoneBed) revoke(user string) {
	k.t.Helper()
	if err := k.keystone.RevokeTokens(k.ctx, k.users[user]); err != nil {
		k.t.Fatal(err)
	}
}

// user creates a user who has a role in a project or in the System, and returns the credentials.
func (k *keystoneBed) user(name, role, scope string) map[string]string {
	k.t.Helper()
	auth := map[string]string{"username": name, "password": "password-of-" + name, "user_domain_id": "default"}
	id, err := k.keystone.CreateUser(k.ctx, name, auth["password"])
	if err != nil {
		k.t.Fatal(err)
	}
	if scope == testbed.System {
		auth["system_scope"] = "all"
	} else {
		auth["project_id"], scope = k.project(scope), k.project(scope)
	}
	if err := k.keystone.Grant(k.ctx, id, role, scope); err != nil {
		k.t.Fatal(err)
	}
	k.users[name] = id
	return auth
}

// project returns the ID of a project, which it creates if there is none of that name yet.
func (k *keystoneBed) project(name string) string {
	k.t.Helper()
	if id, known := k.projects[name]; known {
		return id
	}
	id, err := k.keystone.CreateProject(k.ctx, name)
	if err != nil {
		k.t.Fatal(err)
	}
	k.projects[name] = id
	return id
}

// applicationCredential creates a user with a role in a project, and returns an application credential.
func (k *keystoneBed) applicationCredential(name, project, role string) map[string]string {
	k.t.Helper()
	user := k.user(name, role, project)
	id, secret, err := k.keystone.CreateApplicationCredential(k.ctx, k.users[name], user["password"], k.project(project))
	if err != nil {
		k.t.Fatal(err)
	}
	return map[string]string{"application_credential_id": id, "application_credential_secret": secret}
}

// logins is how often the server has logged in so far.
func (k *keystoneBed) logins() int {
	k.t.Helper()
	n, err := k.keystone.Logins()
	if err != nil {
		k.t.Fatal(err)
	}
	return n
}

// node returns the node of a host, as an administrator sees it.
func (k *keystoneBed) node(h *host) testbed.Node {
	k.t.Helper()
	node, err := k.ironic.Operator().Node(k.ctx, h.ns+"~"+h.name)
	if err != nil {
		k.t.Fatal(err)
	}
	return node
}
