package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// ownership are fields that each list of fields needs. Ironic applies its policy to the fields that it
// returns: without them, a user of the project that owns a node is nobody to Ironic 29.0, which conceals
// last_error, reservation, driver_info and driver_internal_info from such a user.
const ownership = "owner,lessee,"

// statusFields are the fields of Node. "conductor" and "links" must not be in
// it: Ironic answers 500 to a LIST that asks for them.
const statusFields = ownership + "uuid,name,driver,power_state,target_power_state," +
	"provision_state,target_provision_state,provision_updated_at," +
	"last_error,maintenance,maintenance_reason,fault,reservation,instance_uuid,extra,driver_info,automated_clean," +
	"inspection_started_at,inspection_finished_at,clean_step,deploy_step,driver_internal_info,raid_config"

// fieldsFor returns the fields to ask for; an unknown one is refused with 406.
func fieldsFor(features ironic.Features) string {
	fields := statusFields
	if features.ParentNodes {
		fields += ",parent_node"
	}
	if features.Servicing {
		fields += ",service_step"
	}
	if features.Health {
		fields += ",health"
	}
	return fields
}

const (
	// listPage is the largest page that Ironic gives by default ([api]max_limit).
	listPage = 1000
	// listRestarts is how often a LIST begins anew because the node at the end
	// of a page was deleted meanwhile.
	listRestarts = 3
	// changedPage is the least first page of ChangedSince; each further one is five
	// times as large. Most polls find nothing new, and then its size is the cost.
	changedPage = 10
	// changedPages bounds the pages that ChangedSince reads: where more has changed, all
	// nodes are read at a lower price each.
	changedPages = 4
)

var errEmptyID = errors.New("ironic: the name or UUID of a node is empty, or a step in a path")

func nodePath(idOrName string, more ...string) string {
	return "nodes/" + strings.Join(append([]string{url.PathEscape(idOrName)}, more...), "/")
}

// GetNode reads one node by UUID or name. It takes no lock and does not contact
// the BMC.
func (c *Client) GetNode(ctx context.Context, idOrName string) (*ironic.Node, error) {
	switch idOrName {
	case "", ".", "..": // The last two can come from a status that somebody brings along.
		return nil, errEmptyID // The URL would be that of the list, or of something else.
	}
	node := &nodeAnswer{}
	err := c.do(ctx, request{
		op: "GetNode", text: "get node " + idOrName, class: reads, method: http.MethodGet, path: nodePath(idOrName),
		build: func(features ironic.Features) (url.Values, any, error) {
			return url.Values{"fields": {fieldsFor(features)}}, nil, nil
		},
		into: node,
	})
	if err != nil {
		return nil, err
	}
	return &node.Node, nil
}

// GetRegistration reads what Ironic was told of a node.
func (c *Client) GetRegistration(ctx context.Context, uuid string) (*ironic.Registration, error) {
	if uuid == "" {
		return nil, errEmptyID
	}
	registration := &ironic.Registration{}
	err := c.do(ctx, request{
		op: "GetRegistration", text: "get registration of node " + uuid, class: reads, method: http.MethodGet, path: nodePath(uuid),
		build: func(features ironic.Features) (url.Values, any, error) {
			fields := ownership + "driver_info,extra,properties,automated_clean,inspect_interface,deploy_interface,boot_interface,raid_interface,network_interface,instance_info,instance_uuid,network_data,conductor_group"
			if features.DisablePowerOff {
				fields += ",disable_power_off"
			}
			return url.Values{"fields": {fields}}, nil, nil
		},
		into: registration,
	})
	if err != nil {
		return nil, err
	}
	return registration, nil
}

// nodePage is the answer to a LIST.
type nodePage struct {
	Nodes []ironic.Node `json:"nodes"`
	// Next is set when there may be more. Only that it is there counts: the
	// host in it is the one that Ironic believes to have.
	Next string `json:"next"`

	answeredAt time.Time
}

func (p *nodePage) received(date time.Time) {
	p.answeredAt = date
	for i := range p.Nodes {
		p.Nodes[i].AnsweredAt = date
		ironic.DropConcealed(&p.Nodes[i].LastError, &p.Nodes[i].Reservation)
	}
}

// nodeAnswer is the answer to a read or a write of one node.
type nodeAnswer struct{ ironic.Node }

func (a *nodeAnswer) received(date time.Time) {
	a.AnsweredAt = date
	ironic.DropConcealed(&a.LastError, &a.Reservation)
}

// more reports whether another page has to be asked for.
func more(got, limit int, next string) bool { return got > 0 && (next != "" || got >= limit) }

// readPage reads a page of a LIST, and returns how many nodes it has asked for: limit, or fewer if the answer would be too long.
// How long some texts of a node are is decided by its tenant: a BMC can answer with an error of any length, and the network data of
// the ramdisk are a Secret. The nodes of all others must be read all the same.
func (c *Client) readPage(ctx context.Context, op, text string, limit int, query func(features ironic.Features, limit int) url.Values) (page nodePage, asked int, err error) {
	for {
		page = nodePage{}
		err := c.do(ctx, request{
			op: op, text: text, class: reads, method: http.MethodGet, path: "nodes",
			build: func(features ironic.Features) (url.Values, any, error) { return query(features, limit), nil, nil },
			into:  &page,
		})
		if tooLong := (*http.MaxBytesError)(nil); limit == 1 || !errors.As(err, &tooLong) {
			return page, limit, err
		}
		limit = max(limit/10, 1)
	}
}

// ListNodes reads all nodes, in pages.
func (c *Client) ListNodes(ctx context.Context) ([]ironic.Node, error) {
	var nodes []ironic.Node
	limit := listPage
	for restarts := 0; ; {
		marker := ""
		if len(nodes) > 0 {
			marker = nodes[len(nodes)-1].UUID
		}
		page, asked, err := c.readPage(ctx, "ListNodes", "list nodes", limit, func(features ironic.Features, limit int) url.Values {
			return pageQuery(features, limit, marker, url.Values{"fields": {fieldsFor(features)}})
		})
		limit = asked
		if marker != "" && ironic.IsNotFound(err) && restarts < listRestarts {
			restarts++
			nodes = nil
			continue
		}
		if err != nil {
			return nil, err
		}
		if nodes == nil {
			nodes = page.Nodes
		} else {
			nodes = append(nodes, page.Nodes...)
		}
		if !more(len(page.Nodes), limit, page.Next) {
			return nodes, nil
		}
	}
}

// ChangedSince reads the nodes whose record changed at or after the given time,
// newest first, with UpdatedAt set. It costs Ironic little when there are few, and
// the price of a request goes with the size of its page: expected is how many nodes the
// caller expects. It cannot see deleted nodes, nor new ones that nothing has happened
// to yet: those need a ListNodes from time to time. A lock taken or released is a
// change too, so equal contents are normal.
func (c *Client) ChangedSince(ctx context.Context, since time.Time, expected int) (*ironic.Changes, error) {
	changes, pages, err := c.readChanges(ctx, since, expected)
	for again := 1; err == nil && pages > 1 && !changes.Truncated; again++ {
		// A node that changes after the first page was read moves to the front, and is then on none of the others.
		var newer *ironic.Changes
		if newer, pages, err = c.readChanges(ctx, changes.Newest, changedPage); err != nil {
			return nil, err
		}
		replaced := map[string]bool{}
		for i := range newer.Nodes {
			replaced[newer.Nodes[i].UUID] = true
		}
		changes.Nodes = append(newer.Nodes, slices.DeleteFunc(changes.Nodes, func(n ironic.Node) bool { return replaced[n.UUID] })...)
		changes.Newest = latest(changes.Newest, newer.Newest)
		changes.Truncated = newer.Truncated || pages > 1 && again == changedPages
	}
	return changes, err
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// readChanges is ChangedSince for nodes that do not change meanwhile. It returns how many pages it has read.
func (c *Client) readChanges(ctx context.Context, since time.Time, expected int) (changes *ironic.Changes, pages int, err error) {
	changes = &ironic.Changes{}
	seen := map[string]bool{}
	marker := ""
	restarts := 0
	limit := min(max(expected, changedPage), listPage)
	for pages = 1; ; pages++ {
		page, asked, err := c.readPage(ctx, "ChangedSince", "list changed nodes", limit, func(features ironic.Features, limit int) url.Values {
			return pageQuery(features, limit, marker, url.Values{
				// updated_at cannot be asked for in a field list.
				"detail": {"True"}, "sort_key": {"updated_at"}, "sort_dir": {"desc"},
			})
		})
		limit = asked
		if marker != "" && ironic.IsNotFound(err) && restarts < listRestarts {
			restarts++
			marker = ""
			continue
		}
		if err != nil {
			return nil, pages, err
		}
		if changes.AnsweredAt.IsZero() {
			changes.AnsweredAt = page.answeredAt
		}
		for _, node := range page.Nodes {
			if node.UpdatedAt != nil && node.UpdatedAt.After(changes.Newest) {
				changes.Newest = *node.UpdatedAt
			}
			if node.UpdatedAt == nil || node.UpdatedAt.Before(since) {
				return changes, pages, nil // Nodes that never changed come last.
			}
			marker = node.UUID
			// A node that changes between two pages moves to the front, and
			// the others may then come twice.
			if !seen[node.UUID] {
				seen[node.UUID] = true
				changes.Nodes = append(changes.Nodes, node)
			}
		}
		if !more(len(page.Nodes), limit, page.Next) {
			return changes, pages, nil
		}
		if pages >= changedPages {
			changes.Truncated = true
			return changes, pages, nil
		}
		limit = min(5*limit, listPage)
	}
}

// pageQuery adds to the query of a LIST what asks for a page of all nodes.
func pageQuery(features ironic.Features, limit int, marker string, query url.Values) url.Values {
	query.Set("limit", strconv.Itoa(limit))
	if marker != "" {
		query.Set("marker", marker)
	}
	if features.ParentNodes {
		// Without it a LIST leaves out the nodes that have a parent, which may be
		// any; see Node.IsOwnParent.
		query.Set("include_children", "True")
	}
	return query
}

// GetInventory reads what the last inspection found; IsNotFound when there was
// none. It can lag behind the end of an inspection for a moment.
func (c *Client) GetInventory(ctx context.Context, uuid string) (*ironic.Inventory, error) {
	if uuid == "" {
		return nil, errEmptyID
	}
	inventory := &ironic.Inventory{}
	err := c.do(ctx, request{
		op: "GetInventory", text: "get inventory of node " + uuid, class: reads, method: http.MethodGet,
		path: nodePath(uuid, "inventory"), into: inventory,
	})
	if err != nil {
		return nil, err
	}
	return inventory, nil
}

// ListDrivers returns the names of the drivers that a conductor has enabled.
func (c *Client) ListDrivers(ctx context.Context) ([]string, error) {
	var answer struct {
		Drivers []struct {
			Name  string   `json:"name"`
			Hosts []string `json:"hosts"`
		} `json:"drivers"`
	}
	err := c.do(ctx, request{op: "ListDrivers", text: "list drivers", class: reads, method: http.MethodGet, path: "drivers", into: &answer})
	names := []string{} // none is an answer, too
	for _, driver := range answer.Drivers {
		if len(driver.Hosts) > 0 {
			names = append(names, driver.Name)
		}
	}
	return names, err
}

// ListBIOSSettings returns the settings of a node's BIOS, as Ironic has stored them: it reads them
// from the BMC when it verifies, cleans or services the node. The list is empty if the driver
// cannot read them.
func (c *Client) ListBIOSSettings(ctx context.Context, uuid string) ([]ironic.BIOSSetting, error) {
	if uuid == "" {
		return nil, errEmptyID
	}
	var answer struct {
		Settings []ironic.BIOSSetting `json:"bios"`
	}
	err := c.do(ctx, request{
		op: "ListBIOSSettings", text: "list BIOS settings of node " + uuid, class: reads, method: http.MethodGet, path: nodePath(uuid, "bios"),
		build: func(ironic.Features) (url.Values, any, error) { return url.Values{"detail": {"True"}}, nil, nil },
		into:  &answer,
	})
	return answer.Settings, err
}

// ListFirmware returns the firmware of a node, as Ironic has stored it: it reads the versions from
// the BMC when it verifies, cleans or services the node. It needs Features.Firmware.
func (c *Client) ListFirmware(ctx context.Context, uuid string) ([]ironic.FirmwareComponent, error) {
	if uuid == "" {
		return nil, errEmptyID
	}
	var answer struct {
		Components []ironic.FirmwareComponent `json:"firmware"`
	}
	err := c.do(ctx, request{
		op: "ListFirmware", text: "list firmware of node " + uuid, class: reads, method: http.MethodGet, path: nodePath(uuid, "firmware"), into: &answer,
	})
	return answer.Components, err
}

func (p *nodePage) MaskPasswords() {
	for i := range p.Nodes {
		p.Nodes[i].MaskPasswords()
	}
}
