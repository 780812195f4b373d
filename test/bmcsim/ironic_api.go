// SPDX-License-Identifier: Apache-2.0

package bmcsim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// ironicAPI makes the requests of ramdisks to Ironic, which need no password. All machines share a few
// connections, because Ironic's server resets some of the connections that arrive in a burst.
type ironicAPI struct {
	url    string
	client *http.Client
	// turns holds a token for each request that is being made.
	turns chan struct{}
}

const (
	maxIronicRequests    = 4
	ironicRequestTimeout = 30 * time.Second
)

func newIronicAPI(url string) *ironicAPI {
	return &ironicAPI{
		url: strings.TrimSuffix(url, "/"),
		client: &http.Client{Timeout: ironicRequestTimeout, Transport: &http.Transport{
			MaxConnsPerHost: maxIronicRequests, MaxIdleConnsPerHost: maxIronicRequests, IdleConnTimeout: time.Minute,
		}},
		turns: make(chan struct{}, maxIronicRequests),
	}
}

func (i *ironicAPI) close() { i.client.CloseIdleConnections() }

// found is Ironic's answer to a ramdisk whose node it has found.
type found struct {
	Node struct {
		UUID string `json:"uuid"`
	} `json:"node"`
	Config struct {
		// Token consists of asterisks if Ironic has already sent it to a ramdisk.
		Token string `json:"agent_token"`
	} `json:"config"`
}

// lookup looks up the node that waits for a ramdisk with one of these MAC addresses.
func (i *ironicAPI) lookup(ctx context.Context, macs []string) (found, error) {
	var f found
	query := url.Values{"addresses": {strings.Join(macs, ",")}}
	return f, i.do(ctx, http.MethodGet, "/v1/lookup?"+query.Encode(), "1.68", nil, &f)
}

// continueInspection reports an inventory. Ironic accepts it only for a node in "inspect wait".
func (i *ironicAPI) continueInspection(ctx context.Context, report object) (found, error) {
	var f found
	return f, i.do(ctx, http.MethodPost, "/v1/continue_inspection", "1.84", report, &f)
}

func (i *ironicAPI) heartbeat(ctx context.Context, uuid, token, callback string) error {
	return i.do(ctx, http.MethodPost, "/v1/heartbeat/"+url.PathEscape(uuid), "1.68", object{
		"callback_url": callback, "agent_version": "10.1.0", "agent_token": token,
	}, nil)
}

// refusal is an answer of Ironic with a status other than 2xx.
type refusal struct {
	code int
	body string
}

func (e *refusal) Error() string { return fmt.Sprintf("Ironic answers %d: %s", e.code, e.body) }

func (i *ironicAPI) do(ctx context.Context, method, path, version string, in, out any) error {
	var content []byte
	if in != nil {
		var err error
		if content, err = json.Marshal(in); err != nil {
			return err
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, i.url+path, bytes.NewReader(content))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "ironic-python-agent")
	request.Header.Set("X-OpenStack-Ironic-API-Version", version)
	// The wait for the other machines does not count towards the timeout: a ramdisk that gives up a lookup may
	// never get its token, because Ironic sends it only once.
	select {
	case i.turns <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-i.turns }()
	response, err := i.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, 8<<20))
	if err != nil {
		return err
	}
	if response.StatusCode/100 != 2 {
		return &refusal{response.StatusCode, string(answer)}
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(answer, out)
}
