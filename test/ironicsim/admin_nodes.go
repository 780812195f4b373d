package ironicsim

import (
	"io"
	"net/http"
)

// maxInventory bounds the body of PUT inventory. etcd takes 1.5 MiB.
const maxInventory = 64 << 20

// adminNodes adds the paths below /_sim/nodes.
func (s *Sim) adminNodes(mux *http.ServeMux) {
	mux.Handle("GET /_sim/nodes/{node}", adminCall(func(r *http.Request, _ none) (any, error) {
		fields, ok := s.Node(r.PathValue("node"))
		if !ok {
			return nil, errNodeNotFound(r.PathValue("node"))
		}
		for _, k := range []string{"driver_info", "driver_internal_info", "instance_info"} {
			m, _ := fields[k].(map[string]any)
			fields[k] = maskSecrets(m)
		}
		return fields, nil
	}))
	mux.Handle("PATCH /_sim/nodes/{node}", adminCall(func(r *http.Request, in map[string]any) (any, error) {
		return nil, s.SetNode(r.PathValue("node"), in)
	}))
	mux.Handle("DELETE /_sim/nodes/{node}", adminCall(func(r *http.Request, _ none) (any, error) {
		return nil, s.LoseNode(r.PathValue("node"))
	}))
	mux.Handle("DELETE /_sim/nodes", adminCall(func(_ *http.Request, _ none) (any, error) {
		s.LoseAllNodes()
		return nil, nil
	}))
	type lock struct {
		Host string `json:"host"`
	}
	mux.Handle("POST /_sim/nodes/{node}/lock", adminCall(func(r *http.Request, in lock) (any, error) {
		return nil, s.LockNode(r.PathValue("node"), in.Host)
	}))
	mux.Handle("POST /_sim/nodes/{node}/unlock", adminCall(func(r *http.Request, _ none) (any, error) {
		return nil, s.UnlockNode(r.PathValue("node"))
	}))
	type failure struct {
		Phase string `json:"phase"`
		Text  string `json:"text"`
	}
	mux.Handle("POST /_sim/nodes/{node}/fail", adminCall(func(r *http.Request, in failure) (any, error) {
		return nil, s.FailNext(r.PathValue("node"), in.Phase, in.Text)
	}))
	mux.Handle("POST /_sim/nodes/{node}/ramdisk", adminCall(func(r *http.Request, in map[string]any) (any, error) {
		return nil, s.Ramdisk(r.PathValue("node"), in)
	}))
	mux.Handle("PUT /_sim/nodes/{node}/clock", adminCall(func(r *http.Request, in struct {
		Offset string `json:"offset"`
	}) (any, error) {
		offset, err := clockOffset(in.Offset)
		if err != nil {
			return nil, err
		}
		return nil, s.SetNodeClock(r.PathValue("node"), offset)
	}))
	mux.HandleFunc("PUT /_sim/nodes/{node}/inventory", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxInventory))
		if err == nil {
			if len(body) == 0 {
				body = nil
			}
			err = s.SetRawInventory(r.PathValue("node"), body)
		}
		adminAnswer(w, nil, err)
	})
}

// AddHistory adds an event to the history of a node.
func (s *Sim) AddHistory(id, event string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.byUUID[id]
	if e == nil {
		return errNodeNotFound(id)
	}
	s.record(e, "error", event)
	return nil
}
