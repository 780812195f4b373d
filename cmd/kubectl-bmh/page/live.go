// SPDX-License-Identifier: Apache-2.0

package page

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"

	"github.com/metal3-io/metal3-apiserver/cmd/kubectl-bmh/consumers"
)

// heartbeat is how often a browser hears that the picture still holds. The page says that it is not
// live if it has heard nothing for three times as long.
const heartbeat = 4 * time.Second

// maxAge is how old a confirmation may be for the picture to be live. While all works, the next one comes in less. It is older after
// this machine was suspended.
const maxAge = 30 * time.Second

// writeTimeout is how long a browser may take to receive a message before it is disconnected.
const writeTimeout = 30 * time.Second

// Freshness is whether the picture is live.
type Freshness struct {
	// Live is set while the hosts are watched, and the server has asked Ironic when it was last
	// asked itself.
	Live bool `json:"live"`
	// Confirmed is when the picture was live the last time, by the clock of this machine. It is
	// absent if it never was.
	Confirmed *time.Time `json:"confirmed,omitempty"`
	// Reason says why it is not live.
	Reason string `json:"reason,omitempty"`
}

// live is the picture of the fleet, and streams it to browsers.
type live struct {
	scope Scope
	now   func() time.Time

	mu        sync.Mutex
	rows      map[types.UID]*encodedRow
	freshness Freshness
	// changed is closed and replaced when the picture changes.
	changed chan struct{}
}

// encodedRow is a row in JSON, and what it was made of. It is not changed, so that rows can be
// compared by their addresses.
type encodedRow struct {
	host     *metal3.BareMetalHost
	consumer consumers.Consumer
	json     json.RawMessage
}

// message is what a browser receives: first all rows, then what changes.
type message struct {
	Scope     *Scope            `json:"scope,omitempty"`
	Rows      []json.RawMessage `json:"rows,omitempty"`
	Gone      []types.UID       `json:"gone,omitempty"`
	Freshness Freshness         `json:"freshness"`
}

func newLive(scope Scope) *live {
	return &live{scope: scope, now: time.Now, changed: make(chan struct{})}
}

// Show sets the picture: all hosts, which must not be changed any more, what stands behind their
// consumers, by UID, and how fresh that is.
func (s *Server) Show(all []*metal3.BareMetalHost, behind map[string]consumers.Consumer, freshness Freshness) error {
	l := s.live
	rows := make(map[types.UID]*encodedRow, len(all))
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, host := range all {
		consumer := behind[string(host.UID)]
		// An informer replaces a host that has changed by another object.
		row := l.rows[host.UID]
		if row == nil || row.host != host || row.consumer != consumer {
			encoded, err := json.Marshal(rowOf(host, consumer))
			if err != nil {
				return err
			}
			row = &encodedRow{host, consumer, encoded}
		}
		rows[host.UID] = row
	}
	l.rows, l.freshness = rows, freshness
	close(l.changed)
	l.changed = make(chan struct{})
	return nil
}

// picture returns the picture of now, and what is closed when there is another one.
func (l *live) picture() (map[types.UID]*encodedRow, Freshness, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	freshness := l.freshness
	// By the wall clock: the monotonic one stands still while the machine is suspended.
	if confirmed := freshness.Confirmed; freshness.Live && confirmed != nil && l.now().Round(0).Sub(*confirmed) > maxAge {
		freshness.Live, freshness.Reason = false, "the cluster was not asked for a while: was this computer suspended?"
	}
	return l.rows, freshness, l.changed
}

// ServeHTTP streams the picture as lines of JSON until the browser leaves.
func (l *live) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	control := http.NewResponseController(w)
	encoder := json.NewEncoder(w)
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	sent := map[types.UID]*encodedRow{}
	scope := &l.scope
	for {
		rows, freshness, changed := l.picture()
		m := message{Scope: scope, Freshness: freshness}
		for id, row := range rows {
			if sent[id] != row {
				m.Rows = append(m.Rows, row.json)
			}
		}
		for id := range sent {
			if rows[id] == nil {
				m.Gone = append(m.Gone, id)
			}
		}
		sent, scope = rows, nil
		// The whole picture may have to wait for a slow browser, but not for one that has gone to
		// sleep.
		if err := control.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
			return
		}
		if encoder.Encode(m) != nil || control.Flush() != nil {
			return
		}
		select {
		case <-changed:
		case <-beat.C:
		case <-r.Context().Done():
			return
		}
	}
}
