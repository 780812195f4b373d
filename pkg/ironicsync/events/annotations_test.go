// SPDX-License-Identifier: Apache-2.0

package events

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

func TestChangesOfAnnotations(t *testing.T) {
	const fencing = metal3.RebootAnnotationPrefix + "fencing"
	known := func(h *host) { h.Status.HardwareDetails = &metal3.HardwareDetails{RAMMebibytes: 4096} }
	for name, tt := range map[string]struct {
		old, new []func(*host)
		want     []string
	}{
		"a reboot":              {nil, []func(*host){annotated(metal3.RebootAnnotation, `{"mode":"hard"}`)}, []string{"Normal RebootRequested"}},
		"a hold":                {nil, []func(*host){annotated(fencing, "")}, []string{"Normal RebootRequested"}},
		"another annotation":    {nil, []func(*host){annotated("example.com/mode", "hard")}, nil},
		"a reboot, not JSON":    {nil, []func(*host){annotated(metal3.RebootAnnotation, "hard")}, []string{"Warning InvalidAnnotationValue", "Normal RebootRequested"}},
		"a hold, unknown mode":  {nil, []func(*host){annotated(fencing, `{"mode":"warm"}`)}, []string{"Warning InvalidAnnotationValue", "Normal RebootRequested"}},
		"detached, not JSON":    {nil, []func(*host){annotated(metal3.DetachedAnnotation, `{`)}, []string{"Warning InvalidAnnotationValue"}},
		"detached, plain":       {nil, []func(*host){annotated(metal3.DetachedAnnotation, "true")}, nil},
		"told before":           {[]func(*host){annotated(fencing, "hard")}, []func(*host){annotated(fencing, "hard"), powered}, nil},
		"still wrong":           {[]func(*host){annotated(fencing, "hard")}, []func(*host){annotated(fencing, "cold")}, []string{"Warning InvalidAnnotationValue"}},
		"corrected":             {[]func(*host){annotated(fencing, "hard")}, []func(*host){annotated(fencing, "")}, nil},
		"hardware taken over":   {[]func(*host){annotated(metal3.HardwareDetailsAnnotation, `{"ramMebibytes":4096}`)}, []func(*host){known}, []string{"Normal UpdateHardwareDetails"}},
		"hardware not needed":   {[]func(*host){annotated(metal3.HardwareDetailsAnnotation, `{}`), known}, []func(*host){known}, []string{"Normal RemoveAnnotation"}},
		"hardware not readable": {[]func(*host){annotated(metal3.HardwareDetailsAnnotation, `{"ram":1}`)}, nil, []string{"Warning InvalidAnnotationValue"}},
		"hardware waits":        {nil, []func(*host){annotated(metal3.HardwareDetailsAnnotation, `{}`)}, nil},
	} {
		var got []string
		for _, e := range Changes(made(tt.old...), made(tt.new...)) {
			got = append(got, e.Type+" "+e.Reason)
			t.Logf("%s: %s", name, e.Message)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A host can have thousands of annotations, all of them new: that is one event, and the fields of its managers are not gone through for each.
func TestChangesOfManyAnnotations(t *testing.T) {
	const number = 4_500
	old, host := made(), made()
	host.Annotations = map[string]string{}
	fields := map[string]any{}
	for i := range number {
		key := fmt.Sprintf("%s%04d", metal3.RebootAnnotationPrefix, i)
		host.Annotations[key] = ""
		if i >= 100 {
			host.Annotations[key] = "warm"
		}
		fields["f:"+key] = map[string]any{}
	}
	raw, err := json.Marshal(map[string]any{"f:metadata": map[string]any{"f:annotations": fields}})
	if err != nil {
		t.Fatal(err)
	}
	host.ManagedFields = []metav1.ManagedFieldsEntry{
		{Manager: "kubectl-edit", FieldsV1: metav1.NewFieldsV1("{}")},
		{Manager: "kubectl-annotate", FieldsV1: metav1.NewFieldsV1(string(raw))},
	}
	var got []string
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, e := range Changes(old, host) {
		got = append(got, e.Reason+": "+e.Message)
	}
	runtime.ReadMemStats(&after)
	want := []string{
		"InvalidAnnotationValue: Annotation reboot.metal3.io/0100 counts as an empty one (as do 4399 more), which asks for a soft reboot, for its value is not valid: " +
			`must be empty or JSON such as {"mode":"hard","force":false}: invalid character 'w' looking for beginning of value`,
		"RebootRequested: Annotations reboot.metal3.io/0000, reboot.metal3.io/0001, reboot.metal3.io/0002 and 4497 more, set by kubectl-annotate, ask for the host to be off (soft) until they are removed",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 32<<20 {
		t.Errorf("%d MiB were allocated for fields of %d KiB", allocated>>20, len(raw)>>10)
	}
}
