package secrets

import (
	"context"

	"k8s.io/klog/v2"
)

// bodyLevel is the verbosity from which on client-go logs what it sends and what
// it gets, and that are Secrets here.
const bodyLevel = 8

// Quiet is ctx for a request that has a Secret in it, or in its answer.
func Quiet(ctx context.Context) context.Context {
	log := klog.FromContext(ctx)
	if log.GetSink() == nil {
		return ctx // logs nothing
	}
	return klog.NewContext(ctx, log.WithSink(quietSink{log.GetSink()}))
}

// quietSink drops what is logged at bodyLevel and above.
type quietSink struct{ klog.LogSink }

func (s quietSink) Enabled(level int) bool { return level < bodyLevel && s.LogSink.Enabled(level) }

func (s quietSink) WithValues(values ...any) klog.LogSink {
	return quietSink{s.LogSink.WithValues(values...)}
}

func (s quietSink) WithName(name string) klog.LogSink { return quietSink{s.LogSink.WithName(name)} }
