// SPDX-License-Identifier: Apache-2.0

package baremetalhost

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/redact"
)

// NewValidateREST returns the storage of baremetalhosts/validate.
func NewValidateREST(sources Sources, queue *BMCQueue) rest.Storage {
	kind := requestKind[*metal3.HostValidation]{kind: "HostValidation", newRequest: func() *metal3.HostValidation { return &metal3.HostValidation{} }}
	read := func(ctx context.Context, asked Ironic, host *metal3.BareMetalHost, node *ironic.Node, report *metal3.HostValidation) error {
		verdicts, err := asked.Verdicts(ctx, node.UUID)
		if err != nil {
			return sources.bmcError(host, err, "")
		}
		for _, v := range verdicts {
			report.Status.Interfaces = append(report.Status.Interfaces, metal3.InterfaceValidation{Name: v.Interface, Result: resultOf(v), Reason: v.Reason})
		}
		return nil
	}
	return &reportREST[*metal3.HostValidation]{subresource[*metal3.HostValidation]{kind, sources, queue}, read}
}

func resultOf(v ironic.InterfaceVerdict) metal3.InterfaceResult {
	switch {
	case !v.IsSupported():
		return metal3.InterfaceUnsupported
	case *v.Result:
		return metal3.InterfaceUsable
	}
	return metal3.InterfaceUnusable
}

// historyREST serves baremetalhosts/history, in pages.
type historyREST struct {
	subresource[*metal3.HostHistory]
}

// NewHistoryREST returns the storage of baremetalhosts/history.
func NewHistoryREST(sources Sources) rest.Storage {
	kind := requestKind[*metal3.HostHistory]{kind: "HostHistory", newRequest: func() *metal3.HostHistory { return &metal3.HostHistory{} }}
	return &historyREST{subresource[*metal3.HostHistory]{kind, sources, nil}}
}

var _ rest.GetterWithOptions = &historyREST{}

// NewGetOptions returns the query parameters.
func (*historyREST) NewGetOptions() (options runtime.Object, includeSubpath bool, subpathKey string) {
	return &metal3.HostHistoryOptions{}, false, ""
}

// maxHistoryEvents is the size of the largest page.
const maxHistoryEvents = 500

// Get returns a page of the history.
func (r *historyREST) Get(ctx context.Context, name string, obj runtime.Object) (runtime.Object, error) {
	options, ok := obj.(*metal3.HostHistoryOptions)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not HostHistoryOptions: %T", obj))
	}
	if options.Limit < 0 {
		return nil, apierrors.NewBadRequest("limit must not be negative")
	}
	return r.get(ctx, name, func(ctx context.Context, asked Ironic, host *metal3.BareMetalHost, node *ironic.Node, report *metal3.HostHistory) error {
		events, err := asked.History(ctx, node.UUID)
		if err != nil {
			return notRead(host, err)
		}
		slices.Reverse(events)
		page, next, err := historyPage(events, options)
		if err != nil {
			return err
		}
		var texts []*string
		for i := range page {
			texts = append(texts, &page[i].Event)
		}
		redact.Texts(ctx, texts)
		for _, e := range page {
			report.Status.Events = append(report.Status.Events, metal3.HistoryEvent{
				ID: e.UUID, Time: metav1.NewTime(e.CreatedAt), Severity: e.Severity, Type: e.EventType, Message: e.Event, Conductor: e.Conductor,
			})
		}
		report.Status.Continue = next
		return nil
	})
}

// historyPage returns the page that the options ask for, and the options.Continue of the next one,
// which is the ID of the last event of this page. So a page is not shifted by events that
// happen meanwhile.
func historyPage(events []ironic.HistoryEvent, options *metal3.HostHistoryOptions) (page []ironic.HistoryEvent, next string, err error) {
	if options.Continue != "" {
		last := slices.IndexFunc(events, func(e ironic.HistoryEvent) bool { return e.UUID == options.Continue })
		if last < 0 {
			return nil, "", apierrors.NewResourceExpired("Ironic does not keep the event any more after which the page begins: start from the beginning, without the parameter continue")
		}
		events = events[last+1:]
	}
	limit := maxHistoryEvents
	if options.Limit > 0 {
		limit = int(min(options.Limit, maxHistoryEvents))
	}
	if len(events) <= limit {
		return events, "", nil
	}
	return events[:limit], events[limit-1].UUID, nil
}
