// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"net/http"
	"strings"
)

// vmediaMinor is the version with which the virtual drives can be read. They can be written since
// 1.89.
const (
	vmediaMinor    = 89
	getVmediaMinor = 93
)

// getVmedia is GET vmedia: Ironic 29.0 locks the node and asks the BMC.
func (s *Sim) getVmedia(c *call) error {
	t, err := s.acquireForVmedia(c, "get_virtual_media")
	if err != nil {
		return err
	}
	defer t.release()
	image := ""
	if err := s.command(s.ctx, t.node(), "get virtual media", func(b *BMC) { image = b.vmedia }); err != nil {
		return err
	}
	return c.json(http.StatusOK, []map[string]any{{"media_types": []string{"CD", "DVD"}, "inserted": image != "", "image": image}})
}

// postVmedia is POST vmedia. What goes wrong afterwards is in last_error only.
func (s *Sim) postVmedia(c *call) error {
	body, _ := c.body.(map[string]any)
	device, _ := body["device_type"].(string)
	image, _ := body["image_url"].(string)
	if device != "cdrom" || !strings.HasPrefix(image, "http") {
		return badRequest("Schema error for vmedia: %v", c.body)
	}
	t, err := s.acquireForVmedia(c, "attach_virtual_media")
	if err != nil {
		return err
	}
	return t.changeVmedia(c, "Could not attach device "+device+" to node "+t.node().UUID+": ", image, func(b *BMC) string {
		if b.vmedia != "" {
			return "No suitable virtual media device found"
		}
		b.vmedia = image
		return ""
	})
}

// deleteVmedia is DELETE vmedia, which ejects all images.
func (s *Sim) deleteVmedia(c *call) error {
	t, err := s.acquireForVmedia(c, "detach_virtual_media")
	if err != nil {
		return err
	}
	return t.changeVmedia(c, "Could not detach device(s) ['cdrom'] from node "+t.node().UUID+": ", "", func(b *BMC) string {
		b.vmedia = ""
		return ""
	})
}

// acquireForVmedia locks the node of a request, whose driver must have virtual media.
func (s *Sim) acquireForVmedia(c *call, extension string) (*task, error) {
	e, n, err := s.nodeArg(c)
	if err != nil {
		return nil, err
	}
	if n.managementInterface != "redfish" {
		return nil, errUnsupported(n.driver, extension)
	}
	return s.acquire(e, false)
}

// changeVmedia changes the drive in a worker, which downloads the image first, if there is one. change returns what the BMC
// refuses it with.
func (t *task) changeVmedia(c *call, failed, image string, change func(*BMC) (refusal string)) error {
	t.save(func(n *node) { n.LastError = "" })
	err := t.run(func() {
		refusal := ""
		if err := t.s.lookFor(image); err != nil {
			refusal = err.Error()
		} else if err := t.s.command(t.c.ctx, t.node(), "change virtual media", func(b *BMC) { refusal = change(b) }); err != nil {
			refusal = err.Error()
		}
		if refusal != "" {
			t.save(func(n *node) { n.LastError = failed + refusal })
		}
	}, func(*node) {})
	if err != nil {
		return err
	}
	return c.noContent()
}
