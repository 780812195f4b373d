// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"path/filepath"
	"testing"

	"github.com/metal3-io/metal3-apiserver/test/docs"
)

// TestTutorials runs the commands of docs/tutorials in their order, and compares what they print with what the pages show.
func TestTutorials(t *testing.T) {
	t.Parallel()
	bin := docs.BuildPlugin(t)
	for name, bmcs := range docs.UsersPages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, _ := s.Begin(t)
			for _, address := range bmcs {
				s.ironic.AddBMC(address, docs.User, docs.Password)
			}
			reader := docs.Reader{T: t, Ctx: ctx, Path: bin, Dir: t.TempDir(), Kubeconfig: s.Kube.Admin.Kubeconfig}
			reader.Follow("tutorials/" + name + ".md")
		})
	}
	pages, err := filepath.Glob("../../docs/tutorials/*.md")
	if err != nil || len(pages) != len(docs.UsersPages)+len(operatorsPages)+3 { // TestMoveTutorial and TestClusterAPITutorial have one each
		t.Errorf("there are %q: each page but the README has to be in a test (%v)", pages, err)
	}
}
