// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// maxVersionHeader is in each answer of Ironic.
const maxVersionHeader = "X-Openstack-Ironic-Api-Maximum-Version"

// negotiated is what Ironic can do in the version that was negotiated then.
type negotiated struct {
	ironic.Features
	at time.Time
}

// upgradePause is how long what was negotiated is used though an answer offers more: while several API servers are upgraded, the
// next request may go to an old one.
const upgradePause = time.Minute

// Features returns what Ironic can do, by the version of the API in which it is asked. That is found out on
// first use, and again after Ironic was away or refused the version.
func (c *connection) Features(ctx context.Context) (ironic.Features, error) {
	if known := c.features.Load(); known != nil {
		return known.Features, nil
	}
	var found ironic.Features
	err := c.do(ctx, request{op: "APIVersion", text: "ask for the API version", class: reads, method: http.MethodGet, featuresOnly: &found})
	return found, err
}

// negotiate returns what Ironic can do in the version to use with sc, and asks Ironic for the version if it
// is not known.
func (c *connection) negotiate(ctx context.Context, sc *gophercloud.ServiceClient, op string) (ironic.Features, error) {
	if known := c.features.Load(); known != nil {
		return known.Features, nil
	}
	start := c.clock.Now()
	// gophercloud's GetSupportedMicroversions hides why it could not ask.
	resp, err := sc.Request(ctx, http.MethodGet, sc.ResourceBaseURL(), &gophercloud.RequestOpts{
		KeepResponseBody: true,
		OkCodes:          []int{http.StatusOK},
	})
	if err != nil {
		return ironic.Features{}, requestError(ctx, op, err, nil, c.clock.Since(start))
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return ironic.Features{}, ironic.NewUnavailableError(op, err, c.clock.Since(start))
	}
	offered, err := ironic.ParseAPIVersion(resp.Header.Get(maxVersionHeader))
	if err != nil {
		return ironic.Features{}, &ironic.UnavailableError{Op: op, Class: ironic.ClassNotIronic,
			Reason: fmt.Sprintf("the answer from %s is not Ironic's: it has no %s header", sc.ResourceBaseURL(), maxVersionHeader)}
	}
	if offered.IsOlderThan(ironic.OldestAPIVersion) {
		return ironic.Features{}, &ironic.UnavailableError{Op: op, Class: "version",
			Reason: fmt.Sprintf("Ironic at %s offers API %s at most, %s (Ironic 21.4, release 2023.1) or later is needed",
				sc.ResourceBaseURL(), offered, ironic.OldestAPIVersion)}
	}
	use := ironic.FeaturesOf(ironic.Negotiate(offered))
	c.features.Store(&negotiated{use, c.clock.Now()})
	return use, nil
}

// noteOffer has the version negotiated again if an answer shows that Ironic was upgraded. Where API servers are upgraded one after the
// other, no request fails.
func (c *connection) noteOffer(header http.Header) {
	known := c.features.Load()
	offered, err := ironic.ParseAPIVersion(header.Get(maxVersionHeader))
	if err == nil && known != nil && known.APIVersion.IsOlderThan(ironic.Negotiate(offered)) && c.clock.Since(known.at) > upgradePause {
		c.features.CompareAndSwap(known, nil)
	}
}
