// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// FuzzAnnotations checks, for any value of an annotation, that parsing it does not panic, and
// that the parsed value is the same after it was encoded and parsed again.
func FuzzAnnotations(f *testing.F) {
	for _, seed := range []string{
		"", "true", "disabled", "null", "{}", `{"mode":"hard","force":true}`, `{"MODE":"soft"}`, `{"mode":"soft"`, `{"mode":null}`, " {}", "{}{}",
		`{"deleteAction":"delay","force":false}`, `{"deleteAction":""}`, ` {"deleteAction":"x"}`, "\t{", `{"force":1}`, "\xff",
		`{"operationalStatus":"OK","provisioning":{"state":"provisioned","ID":"a","image":{"url":"b"},"raid":{"hardwareRAIDVolumes":[]}},"lastUpdated":"2026-01-01T00:00:00Z"}`,
		`{"operationHistory":{"register":{"start":null,"end":"2026-01-01T00:00:00.123Z"}},"errorCount":1e2}`, `{"hardware":{"nics":[null],"cpu":{"clockMegahertz":1e-7}}}`,
		`{"systemVendor":{"manufacturer":"a"},"ramMebibytes":4096,"storage":[{"sizeBytes":9007199254740993}]}`, `{"ramMebibytes":1,"ramMebibytes":2}`, `{"conditions":[{"lastTransitionTime":null}]}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		checkRoundTrip(t, value, v1alpha1.ParseRebootAnnotation)
		checkRoundTrip(t, value, v1alpha1.ParseDetachedAnnotation)
		checkRoundTrip(t, value, v1alpha1.ParseStatusAnnotation)
		checkRoundTrip(t, value, v1alpha1.ParseHardwareDetailsAnnotation)

		if args, err := v1alpha1.ParseRebootAnnotation(value); err == nil && args.Mode != v1alpha1.PowerModeSoft && args.Mode != v1alpha1.PowerModeHard {
			t.Errorf("a reboot with the mode %q", args.Mode)
		}
		if args, _ := v1alpha1.ParseDetachedAnnotation(value); args.Force && value == "" {
			t.Error("an empty value is parsed as force")
		}
		disabled, err := v1alpha1.ParseInspectAnnotation(value)
		host := &v1alpha1.BareMetalHost{}
		host.Annotations = map[string]string{v1alpha1.InspectAnnotation: value}
		if disabled != host.InspectionDisabled() || err != nil && disabled {
			t.Errorf("parsed as disabled: %v, host disabled: %v, error: %v", disabled, host.InspectionDisabled(), err)
		}
	})
}

// checkRoundTrip parses a value, encodes the result, and parses that again.
func checkRoundTrip[T any](t *testing.T, value string, parse func(string) (T, error)) {
	t.Helper()
	read, err := parse(value)
	if err != nil {
		if err.Error() == "" || len(err.Error()) > 10*len(value)+1000 {
			t.Errorf("an error of %d bytes: %v", len(err.Error()), err)
		}
		return
	}
	text, err := json.Marshal(read)
	if err != nil {
		t.Fatalf("%T cannot be written: %v", read, err)
	}
	if string(text) == "null" {
		text = nil // the annotation is empty
	}
	again, err := parse(string(text))
	if err != nil {
		t.Fatalf("%s, which was encoded from %q: %v", text, value, err)
	}
	if !equality.Semantic.DeepEqual(read, again) {
		t.Errorf("(-parsed +parsed again):\n%s", cmp.Diff(read, again))
	}
}
