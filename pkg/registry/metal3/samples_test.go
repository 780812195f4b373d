// SPDX-License-Identifier: Apache-2.0

package metal3_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// fewest is the minimum number of samples of all kinds together.
const fewest = 250

// suite is a file of testdata/samples: one kind and its rules.
type suite struct {
	Resource string `json:"resource"`
	Kind     string `json:"kind"`
	// ClusterScoped is set if objects of the kind are in no namespace.
	ClusterScoped bool `json:"clusterScoped,omitempty"`
	// Base is an object that obeys all rules. The samples are changes of it.
	Base map[string]any `json:"base"`
	// Rules are the rules of the kind, with requests that obey and that break them.
	Rules []rule `json:"rules"`
}

type rule struct {
	Rule   string   `json:"rule"`
	Accept []sample `json:"accept"`
	Refuse []sample `json:"refuse"`
}

// sample is one request. Metadata, Spec, Status and Other are a JSON merge patch. Without Was,
// the request creates the base with this patch. With Was, the base with the patch Was is stored
// without any validation, and the request updates it with this patch, through the status
// subresource if the patch has a status.
type sample struct {
	Was      map[string]any `json:"was,omitempty"`
	Metadata any            `json:"metadata,omitempty"`
	Spec     any            `json:"spec,omitempty"`
	Status   any            `json:"status,omitempty"`
	// Other are other top-level fields.
	Other map[string]any `json:"other,omitempty"`
	// Delete makes the request delete the stored object.
	Delete bool `json:"delete,omitempty"`
	// Beside are other objects that exist already, by resource. They are patches of the base in
	// that resource's suite.
	Beside map[string]map[string]any `json:"beside,omitempty"`
	// Error is why the request is refused: the type of the only error and the path of its
	// field. In addition to the types of field errors in k8s.io/apimachinery, there are Unknown,
	// for a field that does not exist, and Type, for a value of the wrong type. Without a path,
	// it is the reason of the whole answer.
	Error string `json:"error,omitempty"`
}

func TestSamples(t *testing.T) {
	suites := readSuites(t)
	s := newServer(t)
	for resource := range s.stores {
		if _, ok := suites[resource]; !ok {
			t.Errorf("%s has no samples", resource)
		}
	}
	accepted, refused := 0, 0
	for _, resource := range slices.Sorted(maps.Keys(suites)) {
		suite := suites[resource]
		t.Run(suite.Kind, func(t *testing.T) {
			for _, rule := range suite.Rules {
				t.Run(rule.Rule, func(t *testing.T) {
					if len(rule.Accept) == 0 || len(rule.Refuse) == 0 {
						t.Error("the rule must have both samples that obey it and samples that break it")
					}
					for _, sample := range slices.Concat(rule.Accept, rule.Refuse) {
						namespace := fmt.Sprintf("sample-%d", accepted+refused)
						if err := s.try(t, namespace, suites, resource, sample); err != sample.Error {
							t.Errorf("%s\nexpected: %q\n but got: %q", mustJSON(t, sample), sample.Error, err)
						}
						if sample.Error == "" {
							accepted++
						} else {
							refused++
						}
					}
				})
			}
		})
	}
	t.Logf("%d samples of %d kinds: %d accepted, %d refused", accepted+refused, len(suites), accepted, refused)
	if accepted+refused < fewest {
		t.Errorf("got %d samples, want at least %d", accepted+refused, fewest)
	}
}

// readSuites reads all suites and returns them by resource.
func readSuites(t *testing.T) map[string]suite {
	t.Helper()
	files, err := filepath.Glob("testdata/samples/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	suites := map[string]suite{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var read suite
		if err := yaml.UnmarshalStrict(expand(text), &read, useNumber); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, rule := range read.Rules {
			for _, sample := range rule.Accept {
				if sample.Error != "" {
					t.Fatalf("%s: %s: an accepted sample names an error", file, rule.Rule)
				}
			}
			for _, sample := range rule.Refuse {
				if sample.Error == "" {
					t.Fatalf("%s: %s: a refused sample names no error", file, rule.Rule)
				}
			}
		}
		suites[read.Resource] = read
	}
	return suites
}

// useNumber makes a decoder preserve large numbers.
func useNumber(decoder *json.Decoder) *json.Decoder {
	decoder.UseNumber()
	return decoder
}

// repeated matches text that expand repeats; each # in it is replaced with the number of the
// repetition.
var repeated = regexp.MustCompile(`repeat\((\d+) of (.*?)\)`)

func expand(text []byte) []byte {
	return repeated.ReplaceAllFunc(text, func(found []byte) []byte {
		parts := repeated.FindSubmatch(found)
		times, _ := strconv.Atoi(string(parts[1])) // the pattern matches only digits
		var all []byte
		for i := range times {
			all = append(all, bytes.ReplaceAll(parts[2], []byte("#"), []byte(strconv.Itoa(i)))...)
		}
		return all
	})
}

// try makes the request of a sample, in the given namespace unless the sample names another,
// and returns the error in the format of sample.Error.
func (s *server) try(t *testing.T, namespace string, suites map[string]suite, resource string, sample sample) string {
	t.Helper()
	method, there := http.MethodPost, suites[resource].object(namespace, nil)
	if sample.Was != nil || sample.Status != nil || sample.Delete {
		method, there = http.MethodPut, s.place(t, resource, suites[resource].object(namespace, sample.Was))
	}
	for resource, patch := range sample.Beside {
		s.place(t, resource, suites[resource].object(namespace, patch))
	}
	if sample.Delete {
		return describe(s.remove(t, resource, there))
	}
	patch, path := sample.patch(), resource
	if sample.Status != nil {
		path += "/status"
	}
	return describe(s.send(t, method, path, mergePatch(there, patch).(map[string]any)))
}

// patch returns the JSON merge patch of the sample.
func (s sample) patch() map[string]any {
	patch := map[string]any{}
	maps.Copy(patch, s.Other)
	for key, value := range map[string]any{"metadata": s.Metadata, "spec": s.Spec, "status": s.Status} {
		if value != nil {
			patch[key] = value
		}
	}
	return patch
}

// object returns the base in a namespace, with a patch applied.
func (s suite) object(namespace string, patch map[string]any) map[string]any {
	obj := map[string]any{
		"apiVersion": metal3.SchemeGroupVersion.String(), "kind": s.Kind,
		"metadata": map[string]any{"namespace": namespace},
	}
	if s.ClusterScoped {
		obj["metadata"] = map[string]any{"name": namespace} // another one for each sample
	}
	return mergePatch(mergePatch(obj, s.Base), patch).(map[string]any)
}

// mergePatch applies a JSON merge patch (RFC 7396).
func mergePatch(target, patch any) any {
	fields, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	old, _ := target.(map[string]any)
	merged := map[string]any{}
	maps.Copy(merged, old)
	for key, value := range fields {
		if value == nil {
			delete(merged, key)
			continue
		}
		merged[key] = mergePatch(merged[key], value)
	}
	return merged
}

// describe converts an error to the format of sample.Error. Several errors are separated by
// semicolons.
func describe(err error) string {
	if err == nil {
		return ""
	}
	var texts []string
	if strict, ok := runtime.AsStrictDecodingError(err); ok {
		for _, err := range strict.Errors() {
			if field, ok := strings.CutPrefix(err.Error(), "unknown field "); ok {
				texts = append(texts, "Unknown "+strings.Trim(field, `"`))
				continue
			}
			texts = append(texts, err.Error())
		}
		return strings.Join(texts, "; ")
	}
	var wrongType *json.UnmarshalTypeError
	if errors.As(err, &wrongType) {
		return "Type " + wrongType.Field
	}
	var wrongTime *time.ParseError
	if errors.As(err, &wrongTime) {
		return "Type" // the decoder gives no more details
	}
	var status *apierrors.StatusError
	if errors.As(err, &status) && status.ErrStatus.Details != nil {
		for _, cause := range status.ErrStatus.Details.Causes {
			texts = append(texts, strings.TrimPrefix(string(cause.Type), "FieldValue")+" "+cause.Field)
		}
	}
	if len(texts) == 0 {
		return string(apierrors.ReasonForError(err))
	}
	return strings.Join(slices.Compact(texts), "; ") // k8s.io/apiserver checks metadata more than once
}
