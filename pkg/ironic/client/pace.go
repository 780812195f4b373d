// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// A pace spaces the impatient reads of an Ironic that answers too late for them. Ironic works on for who has given up: if each of them
// asks again at once, what it is asked grows faster than it answers, and nobody is answered in time any more. Nobody waits for a turn:
// who may not ask now is told so, and shows what was recorded.
type pace struct {
	mu sync.Mutex
	// late is how late Ironic is: it grows by one with each read that is given up, where those under way at the same time count once, and
	// each answer halves it. Reads are spaced unless it is 0.
	late     int
	lateFrom time.Time     // when the last read was given up, or the last that was answered began
	waited   time.Duration // for how long it was waited for
	reason   string        // what it says
	next     time.Time     // when the next read may be sent
}

const (
	// maxLate bounds late, so that a few answers end it.
	maxLate = 4
	// maxPause is the longest space between two reads, without the jitter of half of it.
	maxPause = 6 * time.Second
	// minPatience is how long a read must have been waited for to say something about Ironic.
	minPatience = time.Second
	// patient is who waits for so long: the poll, the workers of the engine, and users who do not just read. They are few.
	patient = 5 * time.Second
)

// mayAsk reports whether a read may be sent now for which a caller came at a time, and waits until the deadline; for ever, if that is the
// zero time. If not, it returns what those say who were. Who has waited for a connection for long would probably give up.
func (p *pace) mayAsk(came, now, deadline time.Time) (may bool, reason string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	patience := deadline.Sub(came)
	if p.late == 0 || deadline.IsZero() || patience >= patient {
		return true, ""
	}
	if now.Before(p.next) || deadline.Sub(now) < patience*3/4 {
		return false, p.reason
	}
	p.next = now.Add(wait.Jitter(min(p.waited<<(p.late-1), maxPause), 0.5))
	return true, ""
}

// note notes how a read has ended. Unless Ironic works on for it, its turn goes to another.
func (p *pace) note(began, ended time.Time, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	answer := new(ironic.APIError)
	switch waited := ended.Sub(began); {
	case err == nil, errors.As(err, &answer) && answer.Status < http.StatusBadGateway: // what is in front of Ironic says the others
		p.late /= 2
		p.next = time.Time{}
		if began.After(p.lateFrom) {
			p.lateFrom = began // what has begun before is of an earlier time, such as a request on a dead connection
		}
	case errors.Is(err, context.Canceled): // Ironic works on
	case !ironic.IsTimeout(err):
		p.next = time.Time{}
	case waited >= minPatience && !began.Before(p.lateFrom):
		p.late = min(p.late+1, maxLate)
		p.lateFrom, p.waited, p.reason = ended, waited, ironic.ReasonOf(err)
	}
}
