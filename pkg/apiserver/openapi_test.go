// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// schema is the part of an OpenAPI schema, v2 or v3, that the tests use.
type schema struct {
	Description string `json:"description"`
}

// document is an OpenAPI document, v2 or v3.
type document struct {
	Info        struct{ Title, Version string } `json:"info"`
	Paths       map[string]map[string]json.RawMessage
	Definitions map[string]schema `json:"definitions"`
	Components  struct {
		Schemas map[string]schema `json:"schemas"`
	} `json:"components"`
}

func (d document) schemas() map[string]schema {
	if d.Definitions != nil {
		return d.Definitions
	}
	return d.Components.Schemas
}

func TestOpenAPI(t *testing.T) {
	s := startServer(t, true)
	for version, path := range map[string]string{"v2": "/openapi/v2", "v3": "/openapi/v3/apis/metal3.io/v1alpha1"} {
		t.Run(version, func(t *testing.T) {
			got := s.do(t, "GET", path, "", "Accept: application/json")
			if strings.Contains(string(got.body), "__internal") {
				t.Error("clients are shown a version __internal")
			}
			for media, isOffered := range map[string]bool{"strategic-merge-patch": false, "merge-patch+json": true, "json-patch+json": true, "apply-patch+yaml": true} {
				if strings.Contains(string(got.body), media) != isOffered {
					t.Errorf("clients are offered %s: %t", media, !isOffered)
				}
			}
			if strings.Contains(string(got.body), "vnd.kubernetes.protobuf") && version == "v3" {
				t.Error("clients are offered protobuf")
			}
			var doc document
			got.into(t, 200, &doc)
			if doc.Info.Title != "metal3-apiserver" || doc.Info.Version != "test" {
				t.Errorf("info is %+v", doc.Info)
			}
			if doc.schemas()["io.metal3.v1alpha1.BareMetalHost"].Description == "" {
				t.Error("the description of BareMetalHost is not served")
			}
			testPaths(t, doc)
		})
	}
}

func testPaths(t *testing.T, doc document) {
	const host = groupPath + "/namespaces/{namespace}/baremetalhosts/{name}"
	want := map[string]string{
		groupPath + "/baremetalhosts":                        "get",
		groupPath + "/namespaces/{namespace}/baremetalhosts": "delete,get,post",
		host:                  "delete,get,patch,put",
		host + "/status":      "get,patch,put",
		host + "/power":       "get,post",
		host + "/inspect":     "get,post",
		host + "/retry":       "post",
		host + "/validate":    "get",
		host + "/history":     "get",
		host + "/maintenance": "get,post",
		host + "/bootdevice":  "get,post",
		host + "/nmi":         "post",
		host + "/rebuild":     "post",
		host + "/transfer":    "post",
		host + "/clean":       "post",
		host + "/indicator":   "get,post",

		groupPath + "/hardwaredata":                               "get",
		groupPath + "/namespaces/{namespace}/hardwaredata":        "delete,get,post",
		groupPath + "/namespaces/{namespace}/hardwaredata/{name}": "delete,get,patch,put",
	}
	for path, verbs := range want {
		var got []string
		for verb := range doc.Paths[path] {
			if verb != "parameters" {
				got = append(got, verb)
			}
		}
		slices.Sort(got)
		if strings.Join(got, ",") != verbs {
			t.Errorf("%s: %v, want %s", path, got, verbs)
		}
	}
}
