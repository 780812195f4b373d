// SPDX-License-Identifier: Apache-2.0

package ironic

import (
	"errors"
	"net/http"
	"slices"
)

// VirtualMedia is a virtual drive of a machine.
type VirtualMedia struct {
	MediaTypes []string `json:"media_types"`
	Inserted   bool     `json:"inserted"`
	// Image is the URL that the BMC reports. Ironic serves images under names of its own, so it is not
	// the URL that was attached.
	Image string `json:"image"`
}

// IsOptical reports whether the drive takes CDs or DVDs. A drive that does not say what it takes
// counts as one.
func (v VirtualMedia) IsOptical() bool {
	return len(v.MediaTypes) == 0 || slices.Contains(v.MediaTypes, "CD") || slices.Contains(v.MediaTypes, "DVD")
}

// IsWithoutVirtualMedia reports whether Ironic refused a request for virtual media because the driver of
// the node has none, or because the release is too old.
func IsWithoutVirtualMedia(err error) bool {
	var api *APIError
	if !errors.As(err, &api) {
		return false
	}
	return IsUnsupported(err) || IsTooOld(err) || api.Status == http.StatusNotFound && api.Message == ""
}
