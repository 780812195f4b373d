// SPDX-License-Identifier: Apache-2.0

package app

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// TestDisableUnservedPolicies checks that the server starts in a cluster of any version, and that policies count where there are any.
func TestDisableUnservedPolicies(t *testing.T) {
	const plugin = "MutatingAdmissionPolicy"
	const before = `{"kind":"APIResourceList","apiVersion":"v1","resources":[{"name":"validatingadmissionpolicies","kind":"ValidatingAdmissionPolicy"}]}`
	const since = `{"kind":"APIResourceList","apiVersion":"v1","resources":[{"name":"mutatingadmissionpolicies","kind":"MutatingAdmissionPolicy"}]}`
	for name, test := range map[string]struct {
		code     int
		answer   string
		options  genericoptions.AdmissionOptions
		disabled bool
		fails    bool
	}{
		"before 1.36":          {code: 200, answer: before, disabled: true},
		"since 1.36":           {code: 200, answer: since},
		"a flag disables it":   {code: 200, answer: since, options: genericoptions.AdmissionOptions{DisablePlugins: []string{plugin}}, disabled: true},
		"a flag enables it":    {code: 200, answer: before, options: genericoptions.AdmissionOptions{EnablePlugins: []string{plugin}}},
		"nobody may ask":       {code: 403, answer: `{"kind":"Status","apiVersion":"v1","reason":"Forbidden","code":403}`},
		"the cluster is early": {code: 503, answer: `{"kind":"Status","apiVersion":"v1","reason":"ServiceUnavailable","code":503}`, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/apis/admissionregistration.k8s.io/v1" {
					t.Errorf("the request is for %s", r.URL.Path)
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(test.code)
				if _, err := w.Write([]byte(test.answer)); err != nil {
					t.Error(err)
				}
			}))
			defer cluster.Close()
			client, err := kubernetes.NewForConfig(&rest.Config{Host: cluster.URL})
			if err != nil {
				t.Fatal(err)
			}
			err = disableUnservedPolicies(client.Discovery(), &test.options)
			if (err != nil) != test.fails {
				t.Errorf("error: %v", err)
			}
			if disabled := slices.Contains(test.options.DisablePlugins, plugin); disabled != test.disabled {
				t.Errorf("it is disabled: %t, want %t", disabled, test.disabled)
			}
		})
	}
}
