// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic/client"
	"github.com/metal3-io/metal3-apiserver/test/bmcsim"
)

// rawClient drives Ironic as fast as it answers, and keeps nothing: it knows what
// comes next for each node, and asks for it in the moment that it may.
type rawClient struct {
	endpoint, version string
	http              *http.Client

	mu      sync.Mutex
	waiters map[*waiter]bool
}

// pollEvery is from one LIST of all nodes to the next. To ask for each node by
// itself as often takes all of Ironic's time, and twice as long.
const pollEvery = 200 * time.Millisecond

func clientNode(i int) string { return "raw~" + fleetHost(i) }

// rawNode is as much of a node as a client has to see.
type rawNode struct {
	UUID           string
	ProvisionState string `json:"provision_state"`
	Reservation    *string
	LastError      *string `json:"last_error"`
}

const rawFields = "fields=uuid,provision_state,reservation,last_error"

// byClient does all that byServer has the server do, with the same settings, and
// over as many connections to Ironic as the server may have.
func (f *fleet) byClient(ctx context.Context) (progress, error) {
	ctx, cancel := context.WithTimeout(ctx, f.patience())
	defer cancel()
	const connections = client.DefaultReadConnections + client.DefaultWriteConnections
	transport := &http.Transport{MaxConnsPerHost: connections, MaxIdleConnsPerHost: connections}
	defer transport.CloseIdleConnections()
	// The server negotiates the version; what it settles on is used here.
	requests, err := recordRequests(f.ironic.Endpoint, func(c *client.Client) error {
		_, err := c.ListNodes(ctx)
		return err
	})
	if err != nil {
		return progress{}, err
	}
	c := &rawClient{
		endpoint: f.ironic.Endpoint, version: requests[0].version, http: &http.Client{Transport: transport},
		waiters: map[*waiter]bool{},
	}
	polling, stopPolling := context.WithCancel(ctx)
	var polls sync.WaitGroup
	defer polls.Wait()
	defer stopPolling()
	polls.Go(func() { c.pollAll(polling) })
	var p progress
	var mu sync.Mutex
	began := time.Now()
	arrived := func(at *samples) {
		mu.Lock()
		defer mu.Unlock()
		*at = append(*at, time.Since(began))
	}
	group, ctx := errgroup.WithContext(ctx)
	for i := range f.size {
		group.Go(func() error {
			err := c.provision(ctx, f, i, func() { arrived(&p.available) }, func() { arrived(&p.provisioned) })
			if err != nil {
				err = fmt.Errorf("machine %d: %w", i, err)
			}
			return err
		})
	}
	return p, group.Wait()
}

// object is a JSON object.
type object = map[string]any

// provision takes a machine all the way. It sets what the server sets for a host.
func (c *rawClient) provision(ctx context.Context, f *fleet, i int, available, provisioned func()) error {
	machine := f.machines.Machine(i)
	var node rawNode
	err := c.do(ctx, http.MethodPost, "/v1/nodes", object{
		"name": clientNode(i), "driver": "redfish",
		"boot_interface": "ipxe", "raid_interface": "redfish", "firmware_interface": "redfish", "inspect_interface": "agent",
		"automated_clean": true, "properties": object{"capabilities": "boot_mode:uefi"},
		"driver_info": object{
			"redfish_address": machine.URL(), "redfish_system_id": machine.SystemID(),
			"redfish_username": machine.Username(), "redfish_password": machine.Password(),
			"deploy_kernel": f.machines.FileURL(bmcsim.KernelFile), "deploy_ramdisk": f.machines.FileURL(bmcsim.RamdiskFile),
			"force_persistent_boot_device": "Default",
		},
	}, &node)
	if err != nil {
		return err
	}
	err = c.do(ctx, http.MethodPost, "/v1/ports", object{"node_uuid": node.UUID, "address": machine.MAC(), "pxe_enabled": true}, nil)
	if err != nil {
		return err
	}
	for _, step := range []struct{ verb, state string }{{"manage", "manageable"}, {"inspect", "manageable"}, {"provide", "available"}} {
		if err := c.transition(ctx, node.UUID, step.state, object{"target": step.verb}); err != nil {
			return err
		}
	}
	available()
	if err := c.do(ctx, http.MethodPatch, "/v1/nodes/"+node.UUID, []object{
		{"op": "add", "path": "/instance_info", "value": object{
			"image_source": f.machines.FileURL(bmcsim.ImageFile), "image_disk_format": "raw",
			"image_os_hash_algo": "sha256", "image_os_hash_value": f.machines.FileChecksum(bmcsim.ImageFile),
		}},
		{"op": "add", "path": "/instance_uuid", "value": node.UUID},
		// See setInstance in test/bmcsim: the server sends it too.
		{"op": "add", "path": "/driver_info/has_dedicated_power_supply", "value": true},
	}, nil); err != nil {
		return err
	}
	var verdicts map[string]struct{ Result *bool }
	if err := c.do(ctx, http.MethodGet, "/v1/nodes/"+node.UUID+"/validate", nil, &verdicts); err != nil {
		return err
	}
	if deploy := verdicts["deploy"].Result; deploy == nil || !*deploy {
		return fmt.Errorf("Ironic would not deploy it: %v", verdicts)
	}
	if err := c.transition(ctx, node.UUID, "active", object{"target": "active", "configdrive": object{
		"user_data": userData, "meta_data": object{"uuid": node.UUID, "metal3-name": fleetHost(i), "metal3-namespace": fleetNamespace},
	}}); err != nil {
		return err
	}
	provisioned()
	return nil
}

// transition asks for a verb and waits until the node rests in a state.
func (c *rawClient) transition(ctx context.Context, uuid, state string, body object) error {
	if err := c.do(ctx, http.MethodPut, "/v1/nodes/"+uuid+"/states/provision", body, nil); err != nil {
		return err
	}
	w := &waiter{uuid: uuid, state: state, done: make(chan error, 1)}
	c.mu.Lock()
	c.waiters[w] = true
	c.mu.Unlock()
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("waiting for %s: %w", state, ctx.Err())
	}
}

// waiter waits until a node rests in a state.
type waiter struct {
	uuid, state string
	done        chan error
}

// look reports whether the wait is over. A node in the state that is still locked
// would refuse what comes next; that it is active is all that is waited for.
func (w *waiter) look(node rawNode) (over bool, err error) {
	state := node.ProvisionState
	if strings.HasSuffix(state, "failed") || state == "error" || state == "enroll" {
		reason := "no reason given"
		if node.LastError != nil {
			reason = *node.LastError
		}
		return true, fmt.Errorf("waiting for %s: it is %s: %s", w.state, state, reason)
	}
	return state == w.state && (state == "active" || node.Reservation == nil), nil
}

// pollAll polls for all waiters. A LIST counts for those only who waited when it
// began: an earlier answer may show the state from before the verb.
func (c *rawClient) pollAll(ctx context.Context) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		c.mu.Lock()
		waiting := make(map[string]*waiter, len(c.waiters))
		for w := range c.waiters {
			waiting[w.uuid] = w
		}
		c.mu.Unlock()
		if len(waiting) > 0 {
			c.poll(ctx, waiting)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (c *rawClient) poll(ctx context.Context, waiting map[string]*waiter) {
	var answer struct{ Nodes []rawNode }
	// Without include_children a LIST leaves out nodes that Ironic 29.0 has made their own parents.
	err := c.do(ctx, http.MethodGet, "/v1/nodes?include_children=True&"+rawFields, nil, &answer)
	for _, w := range waiting {
		if err != nil {
			c.end(w, err)
		}
	}
	for _, node := range answer.Nodes {
		w := waiting[node.UUID]
		if w == nil {
			continue
		}
		if over, err := w.look(node); over {
			c.end(w, err)
		}
	}
}

func (c *rawClient) end(w *waiter, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiters, w)
	w.done <- err
}

// do asks Ironic, and again while it has the node locked.
func (c *rawClient) do(ctx context.Context, method, path string, body, into any) error {
	content, err := json.Marshal(body)
	if err != nil {
		return err
	}
	for {
		code, answer, err := c.once(ctx, method, path, content)
		if err != nil {
			return err
		}
		switch {
		case code/100 == 2 && into == nil:
			return nil
		case code/100 == 2:
			return json.Unmarshal(answer, into)
		case code != http.StatusConflict || !bytes.Contains(answer, []byte("is locked by host")):
			return fmt.Errorf("Ironic answers %s %s with %d: %s", method, path, code, answer)
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (c *rawClient) once(ctx context.Context, method, path string, content []byte) (int, []byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.endpoint+path, bytes.NewReader(content))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-OpenStack-Ironic-API-Version", c.version)
	answer, err := c.http.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return answer.StatusCode, text, err
}
