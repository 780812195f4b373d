// SPDX-License-Identifier: Apache-2.0

package ironic

import "context"

// How many requests are under way at one time that Ironic answers only when something of a tenant's has answered, which may
// never happen: the servers of images, and BMCs on behalf of the kinds or of users. They are few, because Ironic's own server
// resets some of twenty connections that arrive at once. A namespace has half of them at most.
const (
	DeploymentConnections   = 12
	DriveConnections        = 6
	SubscriptionConnections = 6
	ActionConnections       = 8
)

// QuestionConnections is how many requests are under way at one time that read what one user asks for. Nobody shares the answer, so
// that a user could otherwise take all connections of the reads that everybody shares.
const QuestionConnections = 4

type tenantKey struct{}

// WithTenant returns a context for the requests that are made for an object in a namespace. Of the connections for requests
// that wait for something of a tenant's, each namespace has a share. It decides about nothing else.
func WithTenant(ctx context.Context, namespace string) context.Context {
	return context.WithValue(ctx, tenantKey{}, namespace)
}

type questionKey struct{}

// WithQuestion returns a context for the requests that answer one user of a namespace, with whom nobody shares the answer.
func WithQuestion(ctx context.Context, namespace string) context.Context {
	return context.WithValue(WithTenant(ctx, namespace), questionKey{}, true)
}

// IsQuestion reports whether a context is one of WithQuestion.
func IsQuestion(ctx context.Context) bool {
	is, _ := ctx.Value(questionKey{}).(bool)
	return is
}

// TenantOf returns the namespace of WithTenant; empty if there is none.
func TenantOf(ctx context.Context) string {
	namespace, _ := ctx.Value(tenantKey{}).(string)
	return namespace
}
