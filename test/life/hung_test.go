// SPDX-License-Identifier: Apache-2.0

package life

import (
	"context"
	"fmt"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/generated/clientset/versioned"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
	"github.com/metal3-io/metal3-apiserver/test/testbed"
)

// warnings are those that a server sends along with its answers.
type warnings struct {
	mu    sync.Mutex
	texts []string
}

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}

func (w *warnings) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.texts
}

// BMCs that take requests and never answer hold up nobody else: more of them than
// hosts are worked on at a time (--workers), and Ironic waits a minute for each. Beside
// them a host goes its way, and what is read stays live.
func TestHungBMCs(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 6*testbed.Patience)
	t.Cleanup(cancel)
	ns := s.NewNamespace(t, ctx)
	hung := make([]*host, 10)
	for i := range hung {
		hung[i] = newHostIn(t, ctx, ns, fmt.Sprintf("hung-%d", i), faulty(bmcsim.HangConnections))
	}
	for _, h := range hung {
		h.ironicIn(ironic.Verifying)
	}
	var told warnings
	config := rest.CopyConfig(s.Config)
	config.WarningHandler = &told
	client, err := versioned.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	healthy := newHostIn(t, ctx, ns, "healthy", withImage)
	reads := 0
	// A minute for one of the hung ones, over and over, at each step of this one would
	// take several times as long.
	healthy.wait("provisioned beside the others", func(bmh *metal3.BareMetalHost) bool {
		for _, name := range []string{healthy.name, hung[reads/2%len(hung)].name} {
			if _, err := client.Metal3V1alpha1().BareMetalHosts(ns).Get(ctx, name, metav1.GetOptions{}); err != nil {
				t.Fatal(err)
			}
			reads++
		}
		return isIn(metal3.StateProvisioned)(bmh)
	})
	// Reads of this suite wait for Ironic for longer than Ironic takes to answer on a busy machine, and shorter than a BMC hangs.
	if texts := told.all(); len(texts) > 0 {
		t.Errorf("of %d reads, %d were not live: %q", reads, len(texts), texts)
	}
	for _, h := range hung {
		if bmh := h.get(); bmh.Status.Provisioning.State != metal3.StateRegistering {
			t.Errorf("%s is %s", h.name, bmh.Status.Provisioning.State)
		}
	}
}
