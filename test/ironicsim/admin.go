// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/metal3-io/metal3-apiserver/test/ironicsim/fsm"
)

// adminUsage is the answer of GET /_sim/.
const adminUsage = `GET    /_sim/stats                        request counters
PUT    /_sim/faults                       {"hang":true,"failWrites":503,"latency":"200ms","latencyPerNode":"150us"}; {} ends all
POST   /_sim/conductor/kill               stop the conductor, as kill -9 does
POST   /_sim/conductor/restart            start it again
GET    /_sim/bmcs                         the simulated BMCs
PUT    /_sim/bmcs/HOST:PORT               {"user":"admin","password":"password","dead":false,"noSoftPower":false,"power":"power on"}
GET    /_sim/nodes/X                      all fields of a node, without its secrets
PATCH  /_sim/nodes/X                      {"power_state":"power on","last_error":null}: change fields behind Ironic's back
DELETE /_sim/nodes/X                      lose a node
DELETE /_sim/nodes                        lose all nodes
POST   /_sim/nodes/X/lock                 {"host":"conductor-1"}
POST   /_sim/nodes/X/unlock
PUT    /_sim/nodes/X/inventory            the very bytes of GET inventory, now and after each inspection to come; none ends it
POST   /_sim/nodes/X/fail                 {"phase":"deploy","text":"disk on fire"}: fail the next operation
POST   /_sim/nodes/X/ramdisk              report an inventory for a node in "inspect wait"; the body may be one
`

// maxInventory bounds the body of PUT inventory. etcd takes 1.5 MiB.
const maxInventory = 64 << 20

// adminCall takes a JSON body into in and answers 204 or, when it returns something, 200.
func adminCall[T any](f func(r *http.Request, in T) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in T
		d := json.NewDecoder(r.Body)
		d.DisallowUnknownFields()
		err := d.Decode(&in)
		if errors.Is(err, io.EOF) {
			err = nil
		}
		var out any
		if err == nil {
			out, err = f(r, in)
		}
		adminAnswer(w, out, err)
	}
}

func adminAnswer(w http.ResponseWriter, out any, err error) {
	switch {
	case err != nil:
		write(w, asAPIError(err, http.StatusBadRequest).code, mustJSON(map[string]string{"error": err.Error()}))
	case out == nil:
		write(w, http.StatusNoContent, nil)
	default:
		write(w, http.StatusOK, mustJSON(out))
	}
}

type none struct{}

type adminBMC struct {
	Address     string  `json:"address,omitempty"`
	User        *string `json:"user,omitempty"`
	Password    *string `json:"password,omitempty"`
	Dead        *bool   `json:"dead,omitempty"`
	NoSoftPower *bool   `json:"noSoftPower,omitempty"`
	Power       *string `json:"power,omitempty"`
}

// adminHandler answers under /_sim/. These paths are not Ironic's: no faults, no authentication, plain JSON errors.
func (s *Sim) adminHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /_sim/{$}", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, adminUsage)
	})
	mux.Handle("GET /_sim/stats", adminCall(func(*http.Request, none) (any, error) { return s.Stats(), nil }))
	mux.Handle("PUT /_sim/faults", adminCall(s.adminFaults))
	mux.Handle("POST /_sim/conductor/kill", adminCall(func(*http.Request, none) (any, error) {
		s.KillConductor()
		return nil, nil
	}))
	mux.Handle("POST /_sim/conductor/restart", adminCall(func(*http.Request, none) (any, error) {
		s.RestartConductor()
		return nil, nil
	}))
	mux.Handle("GET /_sim/bmcs", adminCall(func(*http.Request, none) (any, error) { return s.adminBMCs(), nil }))
	mux.Handle("PUT /_sim/bmcs/{address...}", adminCall(s.adminPutBMC))
	s.adminNodes(mux)
	return mux
}

func (s *Sim) adminFaults(_ *http.Request, in struct {
	FailWrites     int    `json:"failWrites"`
	Hang           bool   `json:"hang"`
	Latency        string `json:"latency"`
	LatencyPerNode string `json:"latencyPerNode"`
},
) (any, error) {
	latency, err := adminDuration(in.Latency)
	if err != nil {
		return nil, err
	}
	perNode, err := adminDuration(in.LatencyPerNode)
	if err != nil {
		return nil, err
	}
	if !slices.Contains([]int{0, 401, 403, 500, 503}, in.FailWrites) {
		return nil, fmt.Errorf("writes fail with 401, 403, 500 or 503, not with %d", in.FailWrites)
	}
	s.SetFaults(Faults{FailWrites: in.FailWrites, Hang: in.Hang, Latency: latency, LatencyPerNode: perNode})
	return nil, nil
}

func adminDuration(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is not a duration such as 200ms", text)
	}
	return d, nil
}

func (s *Sim) adminBMCs() []adminBMC {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := []adminBMC{}
	for _, address := range slices.Sorted(maps.Keys(s.bmcs)) {
		b := s.bmcs[address]
		user, dead, noSoft, power := b.user, b.dead, b.noSoftPower, b.power
		out = append(out, adminBMC{Address: address, User: &user, Dead: &dead, NoSoftPower: &noSoft, Power: &power})
	}
	return out
}

func (s *Sim) adminPutBMC(r *http.Request, in adminBMC) (any, error) {
	if in.Power != nil && *in.Power != fsm.PowerOn && *in.Power != fsm.PowerOff {
		return nil, fmt.Errorf("power is %q or %q", fsm.PowerOn, fsm.PowerOff)
	}
	b := s.BMC(r.PathValue("address"))
	if b == nil {
		b = s.AddBMC(r.PathValue("address"), "admin", "password")
	}
	b.set(func() {
		assign(&b.user, in.User)
		assign(&b.password, in.Password)
		assign(&b.dead, in.Dead)
		assign(&b.noSoftPower, in.NoSoftPower)
		assign(&b.power, in.Power)
	})
	return nil, nil
}

func assign[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

// adminNodes adds the paths below /_sim/nodes.
func (s *Sim) adminNodes(mux *http.ServeMux) {
	node := func(r *http.Request) string { return r.PathValue("node") }
	mux.Handle("GET /_sim/nodes/{node}", adminCall(func(r *http.Request, _ none) (any, error) {
		fields, ok := s.Node(node(r))
		if !ok {
			return nil, errNodeNotFound(node(r))
		}
		for _, k := range []string{"driver_info", "driver_internal_info", "instance_info"} {
			m, _ := fields[k].(map[string]any)
			fields[k] = maskSecrets(m)
		}
		return fields, nil
	}))
	mux.Handle("PATCH /_sim/nodes/{node}", adminCall(func(r *http.Request, in map[string]any) (any, error) {
		return nil, s.SetNode(node(r), in)
	}))
	mux.Handle("DELETE /_sim/nodes/{node}", adminCall(func(r *http.Request, _ none) (any, error) { return nil, s.LoseNode(node(r)) }))
	mux.Handle("DELETE /_sim/nodes", adminCall(func(*http.Request, none) (any, error) {
		s.LoseAllNodes()
		return nil, nil
	}))
	mux.Handle("POST /_sim/nodes/{node}/lock", adminCall(func(r *http.Request, in struct {
		Host string `json:"host"`
	},
	) (any, error) {
		return nil, s.LockNode(node(r), in.Host)
	}))
	mux.Handle("POST /_sim/nodes/{node}/unlock", adminCall(func(r *http.Request, _ none) (any, error) { return nil, s.UnlockNode(node(r)) }))
	mux.Handle("POST /_sim/nodes/{node}/fail", adminCall(func(r *http.Request, in struct {
		Phase string `json:"phase"`
		Text  string `json:"text"`
	},
	) (any, error) {
		return nil, s.FailNext(node(r), in.Phase, in.Text)
	}))
	mux.Handle("POST /_sim/nodes/{node}/ramdisk", adminCall(func(r *http.Request, in map[string]any) (any, error) {
		return nil, s.Ramdisk(node(r), in)
	}))
	mux.HandleFunc("PUT /_sim/nodes/{node}/inventory", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxInventory))
		if len(body) == 0 {
			body = nil
		}
		if err == nil {
			err = s.SetRawInventory(node(r), body)
		}
		adminAnswer(w, nil, err)
	})
}
