package ironic

import "context"

type preconditionKey struct{}

// WithPrecondition returns a context whose requests that change something are only sent as long as
// check returns nil. It is called at the last moment, after the request has waited for a connection.
func WithPrecondition(ctx context.Context, check func() error) context.Context {
	return context.WithValue(ctx, preconditionKey{}, check)
}

// CheckPrecondition returns the error of the precondition of a context, or nil if there is none.
func CheckPrecondition(ctx context.Context) error {
	if check, ok := ctx.Value(preconditionKey{}).(func() error); ok {
		return check()
	}
	return nil
}
