// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"net/http"
	"time"
)

// Clock is how Ironic's times, all of them, relate to the real time.
type Clock struct {
	// Offset is how far Ironic is ahead; negative: behind.
	Offset time.Duration
	// WholeSeconds cuts the fraction of a second off, as MariaDB does with its
	// DATETIME columns. (MySQL rounds: that is an Offset of half a second more.)
	WholeSeconds bool
}

// SetClock changes the clock from now on; what is in the database stays as it is.
func (s *Sim) SetClock(c Clock) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock = c
}

// Clock returns the clock of SetClock.
func (s *Sim) Clock() Clock {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.clock
}

// SetNodeClock puts a node into the care of another conductor, whose clock is ahead
// of Clock by offset; negative: behind. It counts from the next write to the node,
// with which updated_at may go backwards.
func (s *Sim) SetNodeClock(ident string, offset time.Duration) error {
	return s.at(ident, func(e *entry) error {
		e.clockOffset = offset
		return nil
	})
}

// now is the time as Ironic's database keeps it. s.mu must be held.
func (s *Sim) now() time.Time { return s.clock.at(time.Now()) }

func (c Clock) at(t time.Time) time.Time {
	unit := time.Microsecond
	if c.WholeSeconds {
		unit = time.Second
	}
	return t.Add(c.Offset).UTC().Truncate(unit)
}

// timeFor is now by the clock of the conductor that has the node. s.mu must be held.
func (s *Sim) timeFor(e *entry) time.Time {
	c := s.clock
	c.Offset += e.clockOffset
	return c.at(time.Now())
}

// datedResponse has the header Date by Ironic's clock.
type datedResponse struct {
	http.ResponseWriter
	s *Sim
}

func (r datedResponse) WriteHeader(status int) {
	r.Header().Set("Date", r.s.Clock().at(time.Now()).Format(http.TimeFormat))
	r.ResponseWriter.WriteHeader(status)
}

// formatTime is Python's isoformat: RFC 3339 with a numeric offset, and with
// microseconds unless there are none.
func formatTime(t time.Time) any {
	switch {
	case t.IsZero():
		return nil
	case t.Nanosecond() == 0:
		return t.UTC().Format("2006-01-02T15:04:05-07:00")
	}
	return t.UTC().Format("2006-01-02T15:04:05.000000-07:00")
}
