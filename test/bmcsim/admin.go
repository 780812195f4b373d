package bmcsim

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// routes returns a handler for everything except the BMCs.
func (s *Sim) routes() http.Handler {
	mux := http.NewServeMux()
	s.agentRoutes(mux)
	mux.Handle("GET /files/{name}", s.files)
	mux.HandleFunc("GET /firmware/{component}/{version}", firmwareImage)

	mux.HandleFunc("GET /machines", func(w http.ResponseWriter, _ *http.Request) {
		all := []object{}
		for _, m := range s.Machines() {
			all = append(all, m.view())
		}
		respond(w, http.StatusOK, all)
	})
	mux.HandleFunc("POST /machines", func(w http.ResponseWriter, _ *http.Request) {
		m, err := s.AddMachine()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		respond(w, http.StatusCreated, m.view())
	})
	// All other routes are about one machine, and answer with its state.
	handle := func(pattern string, f func(m *Machine, r *http.Request, text string) error) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			m := s.machine(r.PathValue("machine"))
			if m == nil {
				http.Error(w, "no such machine", http.StatusNotFound)
				return
			}
			text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<16))
			if err == nil {
				err = f(m, r, strings.TrimSpace(string(text)))
			}
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			respond(w, http.StatusOK, m.view())
		})
	}
	handle("GET /machines/{machine}", func(*Machine, *http.Request, string) error { return nil })
	handle("PUT /machines/{machine}/power", func(m *Machine, _ *http.Request, text string) error {
		if p := Power(text); p != On && p != Off {
			return fmt.Errorf("power must be %s or %s, not %q", On, Off, text)
		}
		m.SetPower(Power(text))
		return nil
	})
	handle("PUT /machines/{machine}/faults/{fault}", func(m *Machine, r *http.Request, text string) error {
		f, err := parseFault(r)
		if err != nil {
			return err
		}
		return m.SetFault(f, text)
	})
	handle("DELETE /machines/{machine}/faults/{fault}", func(m *Machine, r *http.Request, _ string) error {
		f, err := parseFault(r)
		if err != nil {
			return err
		}
		return m.ClearFault(f)
	})
	return mux
}

func parseFault(r *http.Request) (Fault, error) {
	f := Fault(r.PathValue("fault"))
	if !slices.Contains(allFaults, f) {
		return "", fmt.Errorf("unknown fault %q: must be one of %v", f, allFaults)
	}
	return f, nil
}

// view describes a machine for people.
func (m *Machine) view() object {
	image := m.Image()
	return object{
		"name": m.name, "address": m.Address(), "virtualMediaAddress": m.VirtualMediaAddress(), "bootMACAddress": m.MAC(),
		"power": m.Power(), "running": m.Running(), "boots": len(m.Boots()), "inspections": m.Inspections(),
		"writes": m.Writes(), "diskWrites": m.DiskWrites(), "image": image.URL, "virtualMedia": m.VirtualMedia(), "steps": m.Steps(), "faults": m.Faults(),
		"bios": m.BIOS(), "firmware": m.Firmware(), "volumes": m.Volumes(), "softwareRAID": m.SoftwareRAID(),
	}
}
