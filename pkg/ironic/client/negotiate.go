package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// Version is a microversion of Ironic's API.
type Version struct {
	Major, Minor int
}

// String returns the version as Ironic spells it.
func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// atLeast tells whether the version has what came with 1.minor.
func (v Version) atLeast(minor int) bool { return v.Major > 1 || v.Minor >= minor }

// The span of microversions that this package speaks. A newer Ironic is asked
// in the newest version known here, because later ones may change answers.
const (
	oldestMinor = 82  // Ironic 21.4 (2023.1)
	newestMinor = 115 // Ironic 39.0
)

// The microversions that brought something that is used when it is there.
const (
	minorParentNode        = 83
	minorFirmwareInterface = 86
	minorServiceStep       = 87
	minorDisablePowerOff   = 95
	minorHealth            = 109
)

// maxVersionHeader is in each answer of Ironic.
const maxVersionHeader = "X-Openstack-Ironic-Api-Maximum-Version"

// APIVersion returns the version in which Ironic is asked. It is found out on
// first use, and again after Ironic was away or refused the version.
func (c *Client) APIVersion(ctx context.Context) (Version, error) {
	if known := c.version.Load(); known != nil {
		return *known, nil
	}
	var found Version
	err := c.do(ctx, request{op: "APIVersion", text: "ask for the API version", method: http.MethodGet, versionOnly: &found})
	return found, err
}

// Supports tells whether Ironic is asked in version 1.minor or later.
func (c *Client) Supports(ctx context.Context, minor int) (bool, error) {
	v, err := c.APIVersion(ctx)
	return err == nil && v.atLeast(minor), err
}

// negotiated returns the version to use with sc, asking Ironic for it when it
// is not known.
func (c *Client) negotiated(ctx context.Context, sc *gophercloud.ServiceClient, op string) (Version, error) {
	if known := c.version.Load(); known != nil {
		return *known, nil
	}
	start := time.Now()
	// gophercloud's GetSupportedMicroversions hides why it could not ask.
	resp, err := sc.Request(ctx, http.MethodGet, sc.ResourceBaseURL(), &gophercloud.RequestOpts{
		KeepResponseBody: true,
		OkCodes:          []int{http.StatusOK},
	})
	if err != nil {
		return Version{}, requestError(op, err, nil, time.Since(start))
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return Version{}, ironic.NewUnavailableError(op, err, time.Since(start))
	}
	offered, err := parseVersion(resp.Header.Get(maxVersionHeader))
	if err != nil {
		return Version{}, &ironic.UnavailableError{Op: op, Class: "not_ironic",
			Reason: fmt.Sprintf("the answer from %s is not Ironic's: it has no %s header", sc.ResourceBaseURL(), maxVersionHeader)}
	}
	if !offered.atLeast(oldestMinor) {
		return Version{}, &ironic.UnavailableError{Op: op, Class: "version",
			Reason: fmt.Sprintf("Ironic at %s offers API %s at most, 1.%d (Ironic 21.4, release 2023.1) or later is needed",
				sc.ResourceBaseURL(), offered, oldestMinor)}
	}
	use := Version{Major: 1, Minor: newestMinor}
	if offered.Major == 1 {
		use.Minor = min(offered.Minor, newestMinor)
	}
	c.version.Store(&use)
	return use, nil
}

func parseVersion(s string) (Version, error) {
	major, minor, found := strings.Cut(s, ".")
	if !found {
		return Version{}, fmt.Errorf("%q is not an API version", s)
	}
	ma, err := strconv.Atoi(major)
	if err != nil {
		return Version{}, fmt.Errorf("%q is not an API version", s)
	}
	mi, err := strconv.Atoi(minor)
	if err != nil {
		return Version{}, fmt.Errorf("%q is not an API version", s)
	}
	return Version{Major: ma, Minor: mi}, nil
}
