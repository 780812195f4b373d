// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// schema is the part of an OpenAPI schema, v2 or v3, that the tests use.
type schema struct {
	Ref         string            `json:"$ref"`
	Description string            `json:"description"`
	Properties  map[string]schema `json:"properties"`
	Items       *schema           `json:"items"`
	AllOf       []schema          `json:"allOf"`
	ListType    string            `json:"x-kubernetes-list-type"`
	ListMapKeys []string          `json:"x-kubernetes-list-map-keys"`
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

// refers returns the name of the schema to which a property refers, if it does.
func (s schema) refers() string {
	for _, one := range append([]schema{s}, s.AllOf...) {
		if one.Ref != "" {
			return one.Ref[strings.LastIndex(one.Ref, "/")+1:]
		}
	}
	if s.Items != nil {
		return s.Items.refers()
	}
	return ""
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
			testDescriptions(t, doc)
			testPaths(t, doc)
		})
	}
}

// testDescriptions checks that every field that a user can read or write has a description for
// `kubectl explain`.
func testDescriptions(t *testing.T, doc document) {
	all := doc.schemas()
	fields := 0
	seen := map[string]bool{}
	var walk func(name string)
	walk = func(name string) {
		if seen[name] {
			return
		}
		seen[name] = true
		s, ok := all[name]
		if !ok {
			t.Errorf("schema %s is missing", name)
			return
		}
		if s.Description == "" {
			t.Errorf("%s has no description", name)
		}
		for _, field := range slices.Sorted(maps.Keys(s.Properties)) {
			fields++
			property := s.Properties[field]
			if property.Description == "" {
				t.Errorf("%s.%s has no description", name, field)
			}
			if next := property.refers(); next != "" {
				walk(next)
			}
		}
	}
	for _, kind := range []string{"BareMetalHost", "BareMetalHostList", "HostPower", "HostInspection", "HostRetry", "HostTakeover", "HostTransfer",
		"HostValidation", "HostHistory", "HostMaintenance", "HostBootDevice", "HostNMI", "HostIndicator", "HostRebuild", "HostClean", "HardwareData", "HardwareDataList"} {
		walk("io.metal3.v1alpha1." + kind)
	}
	t.Logf("%d fields in %d types", fields, len(seen))
	if fields < 200 {
		t.Errorf("only %d fields were found", fields)
	}
	conditions := all["io.metal3.v1alpha1.BareMetalHostStatus"].Properties["conditions"]
	if conditions.ListType != "map" || fmt.Sprint(conditions.ListMapKeys) != "[type]" {
		t.Errorf("conditions are a list of type %q with keys %v, so two managers could not apply different conditions", conditions.ListType, conditions.ListMapKeys)
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
