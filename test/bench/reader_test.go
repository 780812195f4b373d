// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"k8s.io/client-go/rest"
)

// reader is somebody who reads from a server as client-go does: over HTTP/2, and
// compressed unless told otherwise.
type reader struct {
	http *http.Client
	url  string
}

func newReader(config *rest.Config) (*reader, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	return &reader{client, config.Host}, nil
}

func (r *reader) close() { r.http.CloseIdleConnections() }

const (
	hostsPath = "/apis/metal3.io/v1alpha1/namespaces/" + namespace + "/baremetalhosts"
	// acceptTable is the header of kubectl get.
	acceptTable = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
)

// get reads one host.
func (r *reader) get(ctx context.Context, i int) error {
	return r.read(ctx, hostsPath+"/"+hostName(i), nil, io.Discard)
}

// list reads all hosts.
func (r *reader) list(ctx context.Context) error { return r.read(ctx, hostsPath, nil, io.Discard) }

// errStale is in the error of a read whose answer came with a warning: what was
// recorded earlier, since Ironic took too long.
var errStale = errors.New("not live")

// read fails when the answer is not live, too, after having read it.
func (r *reader) read(ctx context.Context, path string, header http.Header, into io.Writer) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+path, nil)
	if err != nil {
		return err
	}
	if header != nil {
		request.Header = header
	}
	got, err := readAll(r.http, request, into)
	if err == nil && got.Get("Warning") != "" {
		err = fmt.Errorf("GET %s: %w: %s", path, errStale, got.Get("Warning"))
	}
	return err
}

func readAll(client *http.Client, request *http.Request, into io.Writer) (http.Header, error) {
	answer, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode/100 != 2 {
		body, _ := io.ReadAll(io.LimitReader(answer.Body, 1000))
		return nil, fmt.Errorf("%s %s: %s: %s", request.Method, request.URL, answer.Status, body)
	}
	_, err = io.Copy(into, answer.Body)
	return answer.Header, err
}
