// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"context"

	"k8s.io/klog/v2"
)

// bodyLevel is the lowest verbosity at which client-go logs the bodies of requests and responses.
const bodyLevel = 8

// Quiet returns a context for requests whose body or response contains a Secret: client-go does
// not log them, whatever the verbosity.
func Quiet(ctx context.Context) context.Context {
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
