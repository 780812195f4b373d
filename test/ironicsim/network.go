// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"context"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"time"
)

// lookFor looks for an image on its server, as Ironic does before it answers a validation or the request of a deployment. Only
// servers on this machine are asked: the images of most tests do not exist.
func (s *Sim) lookFor(image string) error {
	if !isOnLoopback(image) {
		return nil
	}
	if err := ask(s.ctx, http.MethodHead, image, imageTimeout); err != nil {
		return badRequest("Validation of image href %s failed, reason: %v", image, err)
	}
	return nil
}

func isOnLoopback(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return err == nil && ip.IsLoopback()
}

// ask makes a request, on a connection of its own, and waits for its answer.
func ask(ctx context.Context, method, address string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, address, nil)
	if err != nil {
		return err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(response.Body, 1<<20))
	return err
}
