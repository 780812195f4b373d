// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// TestTransfer: each host that was chosen is moved to the Ironic that was named, which may be the one without a name.
func TestTransfer(t *testing.T) {
	for name, test := range map[string]struct {
		args   []string
		stdin  string
		posted []string
		code   int
		says   []string
	}{
		"by name":          {args: []string{"a", "--to", "room-b"}, posted: []string{"a to room-b"}},
		"to the flags":     {args: []string{"a", "--to", ""}, posted: []string{"a to "}},
		"to nowhere":       {args: []string{"a"}, code: exitError, says: []string{"--to is missing"}},
		"all, asked":       {args: []string{"--all", "--to", "room-b"}, stdin: "y\n", posted: []string{"a to room-b", "b to room-b"}, says: []string{`This moves to IronicInstance "room-b" 2 hosts in namespace metal3: a, b.`}},
		"all, not wanted":  {args: []string{"--all", "--to", "room-b"}, stdin: "n\n", code: exitError, says: []string{"nothing was done"}},
		"all, not asked":   {args: []string{"--all", "--to", "", "--yes"}, posted: []string{"a to ", "b to "}},
		"one is refused":   {args: []string{"a", "refused", "--to", "room-b"}, posted: []string{"a to room-b", "refused to room-b"}, code: exitError, says: []string{"refused: ", "it is provisioning"}},
		"a server dry run": {args: []string{"a", "--to", "room-b", "--dry-run=server"}, posted: []string{"a to room-b"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(host("a", metal3.StateProvisioned), host("b", metal3.StateAvailable))
			c.metal3.PrependReactor("create", "baremetalhosts", func(action clienttesting.Action) (bool, runtime.Object, error) {
				create := action.(clienttesting.CreateActionImpl)
				if create.Name == "refused" {
					return true, nil, apierrors.NewConflict(metal3.Resource("baremetalhosts"), create.Name, errors.New("it is provisioning"))
				}
				return true, create.Object, nil
			})
			c.stdin, c.canAsk = test.stdin, test.stdin != ""
			if code := c.run(t, append([]string{"transfer"}, test.args...)...); code != test.code {
				t.Errorf("exit code %d, want %d: %s", code, test.code, c.errOut)
			}
			var got []string
			for _, action := range c.metal3.Actions() {
				if create, ok := action.(clienttesting.CreateActionImpl); ok && create.Subresource == "transfer" {
					got = append(got, create.Name+" to "+*create.Object.(*metal3.HostTransfer).Spec.Ironic)
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, test.posted) {
				t.Errorf("posted: %q, want %q", got, test.posted)
			}
			expect(t, "stderr", c.errOut, test.says...)
		})
	}
}
