// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"

	"sigs.k8s.io/yaml"
)

// Prometheus is a Prometheus that scrapes a Server every two seconds.
type Prometheus struct {
	endpoint string
	run      *process
}

// StartPrometheus starts bin/prometheus. It connects to the server as the ServiceMonitor says, and
// adds the labels that the Prometheus Operator would. The token is that of its service account, and
// rules is the path of a file with alerts. If bin/prometheus does not exist, the error is an
// os.ErrNotExist.
func StartPrometheus(ctx context.Context, dir string, server *Server, token, rules string) (*Prometheus, error) {
	program, err := builtProgram("prometheus", "hack/tools/prometheus.sh")
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	address := "127.0.0.1:" + strconv.Itoa(port)
	tokenFile, config := filepath.Join(dir, "token"), filepath.Join(dir, "prometheus.yaml")
	content, err := yaml.Marshal(object{
		"global":     object{"scrape_interval": "2s", "scrape_timeout": "2s", "evaluation_interval": "1s"},
		"rule_files": []string{rules},
		"scrape_configs": []object{{
			"job_name": ServiceName, "scheme": "https",
			"authorization":  object{"credentials_file": tokenFile},
			"tls_config":     object{"ca_file": filepath.Join(server.options.Kube.options.Dir, "ca.crt"), "server_name": ServiceName + "." + Namespace + ".svc"},
			"static_configs": []object{{"targets": []string{"127.0.0.1:" + strconv.Itoa(server.port)}, "labels": object{"namespace": Namespace, "pod": ServiceName + "-0"}}},
		}},
	})
	if err != nil {
		return nil, err
	}
	if err := errors.Join(os.WriteFile(tokenFile, []byte(token), 0o600), os.WriteFile(config, content, 0o600)); err != nil {
		return nil, err
	}
	p := &Prometheus{endpoint: "http://" + address}
	p.run, err = command{
		name: "prometheus", log: filepath.Join(dir, "prometheus.log"), path: program,
		args: []string{"--config.file=" + config, "--web.listen-address=" + address, "--storage.tsdb.path=" + filepath.Join(dir, "prometheus")},
	}.start()
	if err != nil {
		return nil, err
	}
	err = p.run.waitReady(ctx, func(ctx context.Context) error { return httpOK(ctx, nil, p.endpoint+"/-/ready") })
	if err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return p, nil
}

// Stop stops the Prometheus.
func (p *Prometheus) Stop() error { return p.run.stop() }

// Query returns the labels of the series that a query results in.
func (p *Prometheus) Query(ctx context.Context, query string) ([]map[string]string, error) {
	_, body, err := exchange(ctx, http.DefaultClient, http.MethodGet, p.endpoint+"/api/v1/query?query="+url.QueryEscape(query), nil, nil)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Status string `json:"status"`
		Error  string `json:"error"`
		Data   struct {
			Result []struct {
				Metric map[string]string `json:"metric"`
			} `json:"result"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("%s: %w", body, err)
	}
	if answer.Status != "success" {
		return nil, fmt.Errorf("%s: %s", query, answer.Error)
	}
	var series []map[string]string
	for _, result := range answer.Data.Result {
		series = append(series, result.Metric)
	}
	return series, nil
}
