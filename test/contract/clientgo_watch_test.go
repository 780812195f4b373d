// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/ptr"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// nextEvent is the next one of a watch.
func nextEvent(t *testing.T, ctx context.Context, w watch.Interface) watch.Event {
	t.Helper()
	select {
	case event, open := <-w.ResultChan():
		if !open {
			t.Fatal("the watch has ended")
		}
		return event
	case <-ctx.Done():
		t.Fatal("no event came")
	}
	return watch.Event{}
}

// TestClientGoStreamedList: a watch with sendInitialEvents begins with all hosts
// and a bookmark that says so, and goes on with what changes.
func TestClientGoStreamedList(t *testing.T) {
	t.Parallel()
	ctx, ns := s.Begin(t)
	for _, name := range []string{"a", "b", "c"} {
		idleHost(t, ctx, ns, name, withLabel("pool", map[bool]string{true: "x", false: "y"}[name != "b"]))
	}
	options := metav1.ListOptions{
		SendInitialEvents: ptr.To(true), AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	}
	starts := map[string]func(options metav1.ListOptions) (watch.Interface, error){
		"typed": func(options metav1.ListOptions) (watch.Interface, error) { return s.Hosts(ns).Watch(ctx, options) },
		"dynamic": func(options metav1.ListOptions) (watch.Interface, error) {
			return s.Dynamic.Resource(hostResource).Namespace(ns).Watch(ctx, options)
		},
		"metadata": func(options metav1.ListOptions) (watch.Interface, error) {
			client, err := metadata.NewForConfig(s.Config)
			if err != nil {
				return nil, err
			}
			return client.Resource(hostResource).Namespace(ns).Watch(ctx, options)
		},
	}
	for how, start := range starts {
		t.Run(how, func(t *testing.T) {
			for _, version := range []string{"", "0", "1"} {
				options := options
				options.ResourceVersion, options.LabelSelector = version, "pool=x"
				w, err := start(options)
				if err != nil {
					t.Fatal(err)
				}
				var initial []string
				for {
					event := nextEvent(t, ctx, w)
					object, err := meta.Accessor(event.Object)
					if err != nil {
						t.Fatalf("%s %+v: %v", event.Type, event.Object, err)
					}
					if event.Type == watch.Bookmark {
						if object.GetAnnotations()[metav1.InitialEventsAnnotationKey] != "true" || object.GetResourceVersion() == "" {
							t.Errorf("the bookmark is %+v, want the end of the initial events", object)
						}
						break
					}
					initial = append(initial, string(event.Type)+" "+object.GetName())
				}
				if diff := cmp.Diff([]string{"ADDED a", "ADDED c"}, initial); diff != "" {
					t.Errorf("resourceVersion %q: initial events (-want +got):\n%s", version, diff)
				}
				changed := s.PatchHost(t, ctx, ns, "c", `{"metadata":{"labels":{"seen-by":"`+how+version+`"}}}`)
				event := nextEvent(t, ctx, w)
				if event.Type != watch.Modified || versionOf(event.Object) != changed.ResourceVersion {
					t.Errorf("after the initial events came %s %+v, want the change to resourceVersion %s", event.Type, event.Object, changed.ResourceVersion)
				}
				w.Stop()
			}
		})
	}
	t.Run("refused", func(t *testing.T) {
		for name, change := range map[string]func(*metav1.ListOptions){
			"without resourceVersionMatch": func(o *metav1.ListOptions) { o.ResourceVersionMatch = "" },
			"with Exact":                   func(o *metav1.ListOptions) { o.ResourceVersionMatch = metav1.ResourceVersionMatchExact },
		} {
			options := options
			change(&options)
			if w, err := s.Hosts(ns).Watch(ctx, options); !apierrors.IsInvalid(err) {
				t.Errorf("a watch %s: %v %v, want 422", name, w, err)
			}
		}
	})
}

// TestClientGoBookmarks: who asks for bookmarks is told how far the watch is even
// if none of its hosts changes, and can go on from there. etcd alone gives one in
// ten minutes, so this is of the watch cache.
func TestClientGoBookmarks(t *testing.T) {
	if !watchCache {
		t.Skip("without the watch cache a watch has no bookmarks but the first")
	}
	t.Parallel()
	ctx, ns := s.Begin(t)
	idleHost(t, ctx, ns, "watched", withLabel("pool", "x"))
	from, err := s.Hosts(ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	other := idleHost(t, ctx, ns, "other")
	bookmark := awaitBookmark(t, ctx, ns, metav1.ListOptions{ResourceVersion: from.ResourceVersion, LabelSelector: "pool=x"})
	if err := newerOrSame(bookmark.ResourceVersion, other.ResourceVersion); err != nil {
		t.Errorf("the bookmark does not tell of the host that the watch does not show: %v", err)
	}
	again, err := s.Hosts(ns).Watch(ctx, metav1.ListOptions{ResourceVersion: bookmark.ResourceVersion, LabelSelector: "pool=x"})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Stop()
	changed := s.PatchHost(t, ctx, ns, "watched", `{"metadata":{"labels":{"x":"y"}}}`)
	if event := nextEvent(t, ctx, again); event.Type != watch.Modified || versionOf(event.Object) != changed.ResourceVersion {
		t.Errorf("from the bookmark on came %s %+v, want the change to resourceVersion %s", event.Type, event.Object, changed.ResourceVersion)
	}
}

// awaitBookmark watches hosts, none of which changes, until a bookmark comes. The
// watch cache means to send one two seconds before the end of a watch, and may miss
// that on a machine that is busy.
func awaitBookmark(t *testing.T, ctx context.Context, ns string, options metav1.ListOptions) *metal3.BareMetalHost {
	t.Helper()
	options.AllowWatchBookmarks, options.TimeoutSeconds = true, ptr.To[int64](5)
	for ctx.Err() == nil {
		w, err := s.Hosts(ns).Watch(ctx, options)
		if err != nil {
			t.Fatal(err)
		}
		event, open := <-w.ResultChan() // ends with its timeout
		w.Stop()
		if !open {
			continue
		}
		bookmark, ok := event.Object.(*metal3.BareMetalHost)
		if !ok || event.Type != watch.Bookmark || bookmark.Name != "" || bookmark.Annotations[metav1.InitialEventsAnnotationKey] != "" {
			t.Fatalf("%s %+v, want a bookmark", event.Type, event.Object)
		}
		return bookmark
	}
	t.Fatal("no bookmark came")
	return nil
}
