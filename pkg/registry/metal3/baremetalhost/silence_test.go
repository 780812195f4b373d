// SPDX-License-Identifier: Apache-2.0

package baremetalhost_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/registry/metal3/baremetalhost"
	"github.com/metal3-io/metal3-apiserver/test/storetest"
)

// silentError is that of a refresh; silence is nil if etcd is the cause.
type silentError struct {
	silence *metal3.Silence
	cause   error
}

func (e *silentError) Error() string { return "not live" }

// Unwrap returns the cause, such as that Ironic refuses the server.
func (e *silentError) Unwrap() error { return e.cause }

func (e *silentError) Silence() *metal3.Silence { return e.silence }

// since returns an error that tells why Ironic tells nothing, since a time.
func since(observed time.Time, change func(*metal3.Silence)) *silentError {
	silence := &metal3.Silence{Since: metav1.NewTime(observed), Reason: "connection refused"}
	if change != nil {
		change(silence)
	}
	return &silentError{silence: silence}
}

// blinded is a Refresher that never refreshes.
type blinded struct {
	*scripted
	err error
}

func (f *blinded) ReadHost(context.Context, string, string) (*metal3.BareMetalHost, error) {
	return nil, f.err
}

func (f *blinded) RefreshHost(context.Context, string, string) error { return f.err }

func (f *blinded) RefreshAll(context.Context, string) error { return f.err }

// isSame reports whether two are of one resourceVersion, with one status.
func isSame(a, b *metal3.BareMetalHost) bool {
	return a.ResourceVersion == b.ResourceVersion && equality.Semantic.DeepEqual(a.Status, b.Status)
}

// TestSilenceIsShown: with the host's Ironic away, a GET says so in a condition, without a write. What informers keep, that is a list and
// a watch, is what is recorded: the content of its resourceVersion.
func TestSilenceIsShown(t *testing.T) {
	observed := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	eachCache(t, func(t *testing.T, store *genericregistry.Store) {
		live := &blinded{scripted: newScripted(store)}
		r := baremetalhost.NewREST(store, live, nil, nil)
		storetest.Create(t, store, newHost("silent"))
		recorded := record(t, store, "silent", func(s *metal3.BareMetalHostStatus) {
			s.Provisioning.ID = "node"
			s.Conditions = []metav1.Condition{{Type: metal3.IronicReachableCondition, Status: metav1.ConditionTrue, Reason: metal3.ReachableReason, LastTransitionTime: metav1.NewTime(observed.Add(-time.Hour).Truncate(time.Second))}}
		})
		live.err = fmt.Errorf("IronicInstance b: %w", since(observed, nil))
		w := openWatch(t, r, &metainternalversion.ListOptions{ResourceVersion: "0"})

		shown := get(t, r, "silent")
		c := meta.FindStatusCondition(shown.Status.Conditions, metal3.IronicReachableCondition)
		if c == nil || c.Status != metav1.ConditionFalse || c.Reason != metal3.UnreachableReason || c.Message != "Ironic cannot be asked: connection refused; the status is as of 2026-01-02T03:04:05Z" || !c.LastTransitionTime.Time.Equal(observed.Truncate(time.Second)) {
			t.Errorf("a GET shows %+v", c)
		}
		if shown.ResourceVersion != recorded.ResourceVersion || !isSame(get(t, store, "silent"), recorded) {
			t.Error("the host was written, or what the cache has was changed")
		}
		if items := list(t, r, &metainternalversion.ListOptions{}).Items; len(items) != 1 || !isSame(&items[0], recorded) {
			t.Errorf("a list shows %+v", items)
		}
		got := hostIn(storetest.NextEvent(t, w))
		for got.ResourceVersion != recorded.ResourceVersion { // an earlier version comes first if the watch cache lags
			got = hostIn(storetest.NextEvent(t, w))
		}
		if !isSame(got, recorded) {
			t.Errorf("a watch shows %+v", got)
		}

		for name, test := range map[string]struct {
			err             *silentError
			reason, message string
		}{
			"refused": {since(observed, func(s *metal3.Silence) { s.Refused, s.Reason = true, "HTTP 401" }), metal3.RefusedReason,
				"Ironic cannot be asked: HTTP 401; the status is as of 2026-01-02T03:04:05Z"},
			"never observed": {since(time.Time{}, nil), metal3.UnreachableReason, "Ironic cannot be asked: connection refused"},
			"the node alone": {since(observed, func(s *metal3.Silence) { s.Cause, s.Reason = metal3.NodeUnreadableReason, "HTTP 500" }), metal3.NodeUnreadableReason,
				"Ironic answers, but has failed to show the node of this host: HTTP 500; the status is as of 2026-01-02T03:04:05Z"},
			"the node at least": {&silentError{since(observed, func(s *metal3.Silence) { s.Reason = "HTTP 500" }).silence, &ironic.APIError{Op: "get node", Status: 500}}, metal3.UnreachableReason,
				"Ironic has failed to show the node of this host: HTTP 500; the status is as of 2026-01-02T03:04:05Z"},
			"its instance cannot be used": {since(observed, func(s *metal3.Silence) { s.Cause, s.Reason = metal3.NoIronicReason, "it cannot be used" }), metal3.NoIronicReason,
				"Ironic cannot be asked: it cannot be used; the status is as of 2026-01-02T03:04:05Z"},
		} {
			live.err = test.err
			c := meta.FindStatusCondition(get(t, r, "silent").Status.Conditions, metal3.IronicReachableCondition)
			if c == nil || c.Status != metav1.ConditionFalse || c.Reason != test.reason || c.Message != test.message {
				t.Errorf("%s: a GET shows %+v", name, c)
			} else if began := test.err.silence.Since.Time; !began.IsZero() && !c.LastTransitionTime.Time.Equal(began.Truncate(time.Second)) || began.IsZero() && time.Since(c.LastTransitionTime.Time) > time.Minute {
				t.Errorf("%s: since %s", name, c.LastTransitionTime)
			}
		}
		for name, err := range map[string]error{"nothing": nil, "etcd": &silentError{}, "another error": errors.New("gone")} {
			live.err = err
			if got := get(t, r, "silent"); !isSame(got, recorded) {
				t.Errorf("%s fails: %+v", name, got.Status.Conditions)
			}
		}
		// What says nothing of the host's own.
		live.err = since(observed, nil)
		for name, change := range map[string]func(*metal3.BareMetalHostStatus){
			"recorded already": func(s *metal3.BareMetalHostStatus) {
				s.Conditions = []metav1.Condition{{Type: metal3.IronicReachableCondition, Status: metav1.ConditionFalse, Reason: metal3.UnreachableReason, Message: "since noon"}}
			},
			"detached": func(s *metal3.BareMetalHostStatus) {
				s.Conditions, s.OperationalStatus = nil, metal3.OperationalStatusDetached
			},
			"no node": func(s *metal3.BareMetalHostStatus) { s.Conditions, s.Provisioning.ID = nil, "" },
		} {
			recorded := record(t, store, "silent", func(s *metal3.BareMetalHostStatus) {
				s.Provisioning.ID, s.OperationalStatus = "node", metal3.OperationalStatusOK
				change(s)
			})
			if got := get(t, r, "silent"); !isSame(got, recorded) {
				t.Errorf("%s: %+v", name, got.Status.Conditions)
			}
		}
	})
}
