// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// exchange sends a request whose body is in JSON, unless it is nil, and returns the answer with its body read.
func exchange(ctx context.Context, client *http.Client, method, url string, header map[string]string, body any) (*http.Response, []byte, error) {
	var content []byte
	if body != nil {
		var err error
		if content, err = json.Marshal(body); err != nil {
			return nil, nil, err
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(content))
	if err != nil {
		return nil, nil, err
	}
	request.Close = client == http.DefaultClient // which a program that is stopped would break
	request.Header.Set("Content-Type", "application/json")
	for name, value := range header {
		request.Header.Set(name, value)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	return response, answer, err
}

// decode decodes an answer into out, unless that is nil.
func decode(answer []byte, out any) error {
	if out == nil {
		return nil
	}
	return json.Unmarshal(answer, out)
}

// httpOK returns nil if url answers 200. If client is nil, http.DefaultClient is used.
func httpOK(ctx context.Context, client *http.Client, url string) error {
	if client == nil {
		client = http.DefaultClient
	}
	response, body, err := exchange(ctx, client, http.MethodGet, url, nil, nil)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s: %s", url, response.Status, body)
	}
	return nil
}

func insecureHTTPClient() *http.Client {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
}
