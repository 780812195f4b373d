// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/klog/v2"
)

// Reader reads a Secret, which client-go does not log, whatever the verbosity.
type Reader func(ctx context.Context, namespace, name string) (*corev1.Secret, error)

// NewReader returns what reads the Secrets of a cluster.
func NewReader(client corev1client.SecretsGetter) Reader {
	return func(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
		return client.Secrets(namespace).Get(quiet(ctx), name, metav1.GetOptions{})
	}
}

// bodyLevel is the lowest verbosity at which client-go logs the bodies of requests and responses.
const bodyLevel = 8

// quiet returns a context for requests whose body or response contains a Secret: client-go does
// not log them, whatever the verbosity.
func quiet(ctx context.Context) context.Context {
	log := klog.FromContext(ctx)
	if log.GetSink() == nil {
		return ctx // logs nothing
	}
	return klog.NewContext(ctx, log.WithSink(quietSink{log.GetSink()}))
}

// quietSink drops messages with the verbosity bodyLevel and above.
type quietSink struct{ klog.LogSink }

func (s quietSink) Enabled(level int) bool { return level < bodyLevel && s.LogSink.Enabled(level) }

func (s quietSink) WithValues(values ...any) klog.LogSink {
	return quietSink{s.LogSink.WithValues(values...)}
}

func (s quietSink) WithName(name string) klog.LogSink { return quietSink{s.LogSink.WithName(name)} }
