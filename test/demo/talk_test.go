// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"os"
	"testing"

	"github.com/metal3-io/metal3-apiserver/test/docs"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// TestTalk runs the commands of docs/talk.md in `make demo HOSTS=50`, and then those of a tutorial: the demo has machines for it.
func TestTalk(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 6*testbed.Patience)
	t.Cleanup(cancel)
	bin := docs.BuildPlugin(t)
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	ironic, err := newSimulated("50")
	if err != nil {
		t.Fatal(err)
	}
	d := &demo{dir: t.TempDir(), bin: bin, ironic: ironic}
	t.Cleanup(func() {
		if err := d.stop(); err != nil {
			t.Error(err)
		}
	})
	if err := d.start(ctx); err != nil {
		t.Fatal(err)
	}
	var variables bytes.Buffer
	if err := nextSteps.ExecuteTemplate(&variables, "variables", d.names()); err != nil {
		t.Fatal(err)
	}
	reader := docs.Reader{
		T: t, Ctx: ctx, Path: bin, Dir: t.TempDir(), Kubeconfig: d.kube.Admin.Kubeconfig, Variables: variables.String(),
		Skip: "kubectl delete namespace", // as docs/tutorials/README.md says
	}
	reader.Follow("talk.md")
	reader.Follow("tutorials/first-host.md")
}
