package firmware

import (
	"context"
	"time"

	"golang.org/x/sync/singleflight"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// sharedLists reads lists of nodes from Ironic. Callers share a request, also one that is under way: as
// long as the node remains in its state, the answer is the same.
type sharedLists[T any] struct{ requests singleflight.Group }

// listTimeout bounds a request, for which several callers may wait.
const listTimeout = 10 * time.Second

// of returns the list of the node of source, from the Ironic of that name, which ask asks.
func (l *sharedLists[T]) of(ctx context.Context, ironic string, source *metal3.SettingsSource, ask func(ctx context.Context, uuid string) ([]T, error)) ([]T, error) {
	requested := l.requests.DoChan(ironic+" "+source.NodeUUID+" "+source.StateChangedAt.String(), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), listTimeout)
		defer cancel()
		return ask(ctx, source.NodeUUID)
	})
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case answer := <-requested:
		list, _ := answer.Val.([]T)
		return list, answer.Err
	}
}
