package ironicsim

import (
	"cmp"
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
DELETE /_sim/stats                        set them to zero
GET    /_sim/faults                       faults in force
PUT    /_sim/faults                       {"fail500":true,"failWrites":403,"hang":true,"latency":"200ms","latencyPerNode":"150us","maxBurst":20}; {} ends all
POST   /_sim/refuse                       {"for":"5s"}: refuse connections for so long
PUT    /_sim/clock                        {"offset":"-10m","wholeSeconds":true}: Ironic's clock, against the real one
GET    /_sim/diskwrites                   what was done to disks, by the UUID of the node
POST   /_sim/conductor/kill               stop the conductor, as kill -9 does
POST   /_sim/conductor/restart            start it again
GET    /_sim/bmcs                         the simulated BMCs
PUT    /_sim/bmcs/HOST:PORT               {"user":"admin","password":"password","dead":false,"stuck":false,"noSoftPower":false,"power":"power on"}
GET    /_sim/nodes/X                      all fields of a node, without its secrets
PATCH  /_sim/nodes/X                      {"power_state":"power on","last_error":null}: change fields behind Ironic's back
DELETE /_sim/nodes/X                      lose a node
DELETE /_sim/nodes                        lose all nodes
POST   /_sim/nodes/X/lock                 {"host":"conductor-1"}
POST   /_sim/nodes/X/unlock
PUT    /_sim/nodes/X/clock                {"offset":"5s"}: a conductor whose clock is off has the node
PUT    /_sim/nodes/X/inventory            the very bytes of GET inventory, now and after each inspection to come; none ends it
POST   /_sim/nodes/X/fail                 {"phase":"deploy","text":"disk on fire"}: fail the next operation
POST   /_sim/nodes/X/ramdisk              report an inventory for a node in "inspect wait"; the body may be one
`

// adminCall is a handler that takes a JSON body into in, if it is not nil, and
// answers 204 or, when it returns something, 200.
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

// adminAnswer is the error, or out, or 204 where there is nothing to say.
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

type adminFaults struct {
	Fail500        bool   `json:"fail500"`
	FailWrites     int    `json:"failWrites"`
	Hang           bool   `json:"hang"`
	Latency        string `json:"latency"`
	LatencyPerNode string `json:"latencyPerNode"`
	MaxBurst       int    `json:"maxBurst"`
}

type adminClock struct {
	Offset       string `json:"offset"`
	WholeSeconds bool   `json:"wholeSeconds"`
}

type adminBMC struct {
	Address     string  `json:"address,omitempty"`
	User        *string `json:"user,omitempty"`
	Password    *string `json:"password,omitempty"`
	Dead        *bool   `json:"dead,omitempty"`
	Stuck       *bool   `json:"stuck,omitempty"`
	NoSoftPower *bool   `json:"noSoftPower,omitempty"`
	Power       *string `json:"power,omitempty"`
}

// adminHandler answers under /_sim/. These paths are not Ironic's: no faults, no
// authentication, plain JSON errors.
func (s *Sim) adminHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /_sim/{$}", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, adminUsage)
	})
	mux.Handle("GET /_sim/stats", adminCall(func(_ *http.Request, _ none) (any, error) { return s.Stats(), nil }))
	mux.Handle("DELETE /_sim/stats", adminCall(func(_ *http.Request, _ none) (any, error) {
		s.ResetStats()
		return nil, nil
	}))
	mux.Handle("GET /_sim/faults", adminCall(func(_ *http.Request, _ none) (any, error) {
		f := s.Faults()
		return adminFaults{f.Fail500, f.FailWrites, f.Hang, f.Latency.String(), f.LatencyPerNode.String(), f.MaxBurst}, nil
	}))
	mux.Handle("PUT /_sim/faults", adminCall(func(_ *http.Request, in adminFaults) (any, error) {
		latency, err := duration(in.Latency)
		if err != nil {
			return nil, err
		}
		perNode, err := duration(in.LatencyPerNode)
		if err != nil {
			return nil, err
		}
		if code := in.FailWrites; code != 0 && code != 401 && code != 403 && code != 500 {
			return nil, fmt.Errorf("writes fail with 401, 403 or 500, not with %d", code)
		}
		s.SetFaults(Faults{Fail500: in.Fail500, FailWrites: in.FailWrites, Hang: in.Hang, Latency: latency, LatencyPerNode: perNode, MaxBurst: in.MaxBurst})
		return nil, nil
	}))
	mux.HandleFunc("POST /_sim/refuse", s.adminRefuse)
	mux.Handle("POST /_sim/conductor/kill", adminCall(func(_ *http.Request, _ none) (any, error) {
		s.KillConductor()
		return nil, nil
	}))
	mux.Handle("POST /_sim/conductor/restart", adminCall(func(_ *http.Request, _ none) (any, error) {
		s.RestartConductor()
		return nil, nil
	}))
	mux.Handle("GET /_sim/bmcs", adminCall(func(_ *http.Request, _ none) (any, error) { return s.adminBMCs(), nil }))
	mux.Handle("PUT /_sim/bmcs/{address...}", adminCall(s.adminPutBMC))
	mux.Handle("GET /_sim/diskwrites", adminCall(func(_ *http.Request, _ none) (any, error) { return s.AllDiskWrites(), nil }))
	mux.Handle("GET /_sim/clock", adminCall(func(_ *http.Request, _ none) (any, error) {
		c := s.Clock()
		return adminClock{c.Offset.String(), c.WholeSeconds}, nil
	}))
	mux.Handle("PUT /_sim/clock", adminCall(func(_ *http.Request, in adminClock) (any, error) {
		offset, err := clockOffset(in.Offset)
		if err != nil {
			return nil, err
		}
		s.SetClock(Clock{offset, in.WholeSeconds})
		return nil, nil
	}))
	s.adminNodes(mux)
	return mux
}

// clockOffset is a duration that may be negative; empty is none.
func clockOffset(text string) (time.Duration, error) {
	d, err := time.ParseDuration(cmp.Or(text, "0s"))
	if err != nil {
		return 0, fmt.Errorf("%q is not an offset such as -10m", text)
	}
	return d, nil
}

func duration(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is not a duration such as 200ms", text)
	}
	return d, nil
}

// adminRefuse answers before it closes the port, this connection included.
func (s *Sim) adminRefuse(w http.ResponseWriter, r *http.Request) {
	answered := make(chan struct{})
	adminCall(func(_ *http.Request, in struct {
		For string `json:"for"`
	}) (any, error) {
		d, err := duration(in.For)
		if err != nil || d == 0 {
			return nil, fmt.Errorf(`{"for":"5s"} is needed: nobody could end it by this way`)
		}
		s.spawn(func() {
			<-answered
			s.RefuseConnections()
			if sleep(s.ctx, d) {
				// The port was ours a moment ago; if it is gone there is nobody to tell.
				_ = s.AcceptConnections()
			}
		})
		return nil, nil
	})(w, r)
	_ = http.NewResponseController(w).Flush() // what closes the port closes this connection, too
	close(answered)
}

func (s *Sim) adminBMCs() []adminBMC {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := []adminBMC{}
	for _, address := range slices.Sorted(maps.Keys(s.bmcs)) {
		b := s.bmcs[address]
		user, dead, stuck, noSoft, power := b.user, b.dead, b.stuck, b.noSoftPower, b.power
		out = append(out, adminBMC{Address: address, User: &user, Dead: &dead, Stuck: &stuck, NoSoftPower: &noSoft, Power: &power})
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
		assign(&b.stuck, in.Stuck)
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
