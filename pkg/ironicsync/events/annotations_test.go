// SPDX-License-Identifier: Apache-2.0

package events

import (
	"testing"

	"github.com/google/go-cmp/cmp"

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
