package drive_test

import (
	"testing"
	"time"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// TestPollsOfBusyIronic: while Ironic works on a host, it is polled often, but a slow Ironic less often, so
// that polls do not take the time that the work needs. A change is seen within a second nevertheless.
func TestPollsOfBusyIronic(t *testing.T) {
	for _, tt := range []struct {
		name        string
		took        time.Duration
		least, most int // polls a minute
	}{
		{"quick", 0, 170, 210},
		{"slow", 50 * time.Millisecond, 110, 130},
		{"very slow", time.Second, 28, 32},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.ironic.takes = map[ironic.ProvisionState]time.Duration{ironic.Inspecting: 10 * time.Minute}
				w.secret("secret")
				w.hosts.Add(withRedfish())
				w.after(time.Minute, "being inspected", func() bool {
					s := w.host().Status.Ironic
					return s != nil && s.ProvisionState == string(ironic.Inspecting)
				})
				w.ironic.Change(func() { w.ironic.Single = func() time.Duration { return tt.took } })
				before := w.ironic.count("ChangedSince")
				time.Sleep(time.Minute)
				if polls := w.ironic.count("ChangedSince") - before; polls < tt.least || polls > tt.most {
					t.Errorf("%d polls a minute", polls)
				}
			})
		})
	}
}
