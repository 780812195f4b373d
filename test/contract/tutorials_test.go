// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"path/filepath"
	"testing"

	"github.com/metal3-io/metal3-apiserver/test/docs"
)

// usersPages are the tutorials for a cluster on which the server is installed, with the BMCs of the machines.
var usersPages = map[string][]string{
	"first-host": {"192.0.2.31"}, "rack": {"192.0.2.70", "192.0.2.71", "192.0.2.72"}, "tenants": {"192.0.2.90"},
}

// TestTutorials runs the commands of docs/tutorials in their order, and compares what they print with what the pages show.
func TestTutorials(t *testing.T) {
	t.Parallel()
	bin := docs.BuildPlugin(t)
	for name, bmcs := range usersPages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, _ := s.Begin(t)
			for _, address := range bmcs {
				s.ironic.AddBMC("ipmi://"+address, "admin", "s3cret")
			}
			reader := docs.Reader{T: t, Ctx: ctx, Path: bin, Dir: t.TempDir(), Kubeconfig: s.Kube.Admin.Kubeconfig}
			reader.Follow("tutorials/" + name + ".md")
		})
	}
	pages, err := filepath.Glob("../../docs/tutorials/*.md")
	if err != nil || len(pages) != len(usersPages)+len(operatorsPages)+3 { // TestMoveTutorial and TestClusterAPITutorial have one each
		t.Errorf("there are %q: each page but the README has to be in a test (%v)", pages, err)
	}
}
