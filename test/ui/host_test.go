// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"context"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/consumers"
	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/page"
	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/why"
	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// cluster answers reads of single hosts, and counts them.
type cluster struct {
	hosts atomic.Pointer[[]*metal3.BareMetalHost]
	reads atomic.Int32
}

func (c *cluster) set(hosts []*metal3.BareMetalHost) {
	hosts = slices.Clone(hosts)
	c.hosts.Store(&hosts)
}

func (c *cluster) detail(_ context.Context, namespace, name string) (*page.Detail, error) {
	c.reads.Add(1)
	for _, h := range *c.hosts.Load() {
		if h.Namespace == namespace && h.Name == name {
			return page.NewDetail(why.Facts{Host: h}, consumers.Consumer{}, nil, time.Now()), nil
		}
	}
	return nil, apierrors.NewNotFound(metal3.Resource("baremetalhosts"), name)
}

// awaitFrames waits until what the page was told is drawn.
func (b *tab) awaitFrames() {
	b.t.Helper()
	eval[bool](b, `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`, chromedp.EvalAwaitPromise)
}

// showOther shows hosts with a change of one that the page says in its header, and waits until the page has drawn it.
func (b *tab) showOther(server *page.Server, hosts []*metal3.BareMetalHost, confirmed time.Time) {
	b.t.Helper()
	hosts = slices.Clone(hosts)
	changed := hosts[len(hosts)-1].DeepCopy()
	changed.ResourceVersion = confirmed.Format("150405.000000000")
	hosts[len(hosts)-1] = changed
	if err := server.Show(hosts, nil, page.Freshness{Live: false, Confirmed: &confirmed, Reason: "told at " + confirmed.Format(time.RFC3339)}); err != nil {
		b.t.Fatal(err)
	}
	b.wait("#stale", "told at "+confirmed.Format(time.RFC3339))
	b.awaitFrames()
}

// TestLeftTheList: a host that is no longer in the list is deleted only if a read of it says so; then it stays so, whatever happens
// to others.
func TestLeftTheList(t *testing.T) {
	t.Parallel()
	known := &cluster{}
	hosts := fleetOf(3)
	known.set(hosts)
	server, _ := newPage(t, http.NotFound, func(o *page.Options) { o.Detail = known.detail })
	show(t, server, hosts)
	b := openTab(t)
	b.open(server.Link())
	b.wait(".counts", "3 hosts")
	b.press("main", hosts[0].Name)
	b.wait(".big", "provisioned")
	b.wait(".actions", "Delete…")

	// Its labels have changed, so that it is not selected any more.
	rest, now, reads := hosts[1:], time.Now(), known.reads.Load()
	b.showOther(server, rest, now)
	b.waitFor("another read of the host", func() string {
		if known.reads.Load() == reads {
			return "none yet"
		}
		return ""
	})
	b.wait(".big", "provisioned")
	b.wait(".actions", "Delete…")
	show(t, server, append(hosts[:1:1], rest...))
	b.wait("#freshness", "● Live")
	b.awaitFrames()

	known.set(rest)
	b.showOther(server, rest, now.Add(time.Second))
	b.wait(".big", "This host was deleted.")
	b.showOther(server, rest, now.Add(2*time.Second))
	if got := b.text(".big"); got != "This host was deleted." {
		t.Errorf("after a change of another host: %q", got)
	}

	// Another one with its name comes, with all its buttons.
	known.set(hosts)
	show(t, server, append(hosts[:1:1], rest...))
	b.wait(".big", "provisioned")
	b.wait(".actions", "Delete…")
	b.noComplaints()
}

// TestNamesakes: with all namespaces, a question names the host so that it is not taken for another one of the same name.
func TestNamesakes(t *testing.T) {
	t.Parallel()
	known := &cluster{}
	hosts := fleetOf(2)
	for i, ns := range []string{"east", "west"} {
		hosts[i].Namespace, hosts[i].Name = ns, "worker-0"
	}
	known.set(hosts)
	server, requests := newPage(t, http.NotFound, func(o *page.Options) {
		o.Detail, o.Scope = known.detail, page.Scope{Context: "lab", AllNamespaces: true}
		o.Rights = func(context.Context, string) map[page.Right]bool {
			return map[page.Right]bool{page.RightPower: true, page.RightDelete: true}
		}
	})
	show(t, server, hosts)
	b := openTab(t)
	b.open(server.Link())
	b.wait(".counts", "2 hosts")
	b.click(`[aria-label="Select east/worker-0"]`)
	b.click(`[aria-label="Select west/worker-0"]`)
	b.press("main", "Power off")
	b.wait("dialog", "east/worker-0")
	b.wait("dialog", "west/worker-0")
	b.press("dialog", "Power off 2 hosts")
	b.wait("dialog", "These were refused")
	b.wait("dialog", "west/worker-0")
	b.press("dialog", "Close")

	eval[bool](b, `location.hash = "#/host/west/worker-0", true`)
	b.wait("h2", "west/worker-0")
	b.wait("#facts + div", "west")
	asked := requests.Load()
	b.press("main", "Delete…")
	b.wait("dialog h2", "Delete west/worker-0?")
	b.wait("dialog", "The machine goes on as it is, because somebody has deployed it")
	b.do(chromedp.SendKeys(chromedp.CSS("dialog input"), "worker-0"))
	b.press("dialog", "Delete")
	b.wait("dialog", "This is not the name of the host, which is west/worker-0.")
	if n := requests.Load() - asked; n != 0 {
		t.Errorf("%d requests were sent", n)
	}
	b.noComplaints()
}
