// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"encoding/json"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// hostileURLs are refused wherever a URL can be written.
var hostileURLs = []string{
	"file:///etc/passwd", "file:/etc/passwd", "FILE:///etc/passwd", " file:///etc/passwd", "\tfile:/etc/passwd", "\x00file:/etc/passwd", "fi\nle:/etc/passwd",
	"\u200bfile:/etc/passwd", "swift:a", "ftp://a/b", "gopher://a/b", "javascript:a", "http:/a/b", "http:a",
	"http://user:secret@a/b", "https://token@a/b", "http://169。254.169.254/b", "http://a/\u202eb", "http://a/\u009bb",
}

// urlFields are the fields whose names say that they have a URL or an address, and who checks them when
// they are written: a validation, which gets the URL, or nobody, because of what the text says.
var urlFields = map[string]any{
	"BareMetalHost spec.image.url": func(url string) field.ErrorList {
		return ValidateBareMetalHost(hostWith(func(h *v1alpha1.BareMetalHost) { h.Spec.Image = &v1alpha1.Image{URL: url, Checksum: "a"} }))
	},
	"BareMetalHost spec.image.checksum": func(url string) field.ErrorList {
		return ValidateBareMetalHost(hostWith(func(h *v1alpha1.BareMetalHost) { h.Spec.Image = &v1alpha1.Image{URL: "http://a/b", Checksum: url} }))
	},
	"BareMetalHost spec.bmc.address": func(url string) field.ErrorList {
		return ValidateBareMetalHost(hostWith(func(h *v1alpha1.BareMetalHost) { h.Spec.BMC.Address = url }))
	},
	"BareMetalHost status.provisioning.image.url": func(url string) field.ErrorList {
		return statusWith(func(s *v1alpha1.BareMetalHostStatus) { s.Provisioning.Image.URL = url })
	},
	"BareMetalHost status.provisioning.image.checksum": func(url string) field.ErrorList {
		return statusWith(func(s *v1alpha1.BareMetalHostStatus) {
			s.Provisioning.Image = v1alpha1.Image{URL: "http://a/b", Checksum: url}
		})
	},
	"BareMetalHost status.lastAttemptedImage.url": func(url string) field.ErrorList {
		return statusWith(func(s *v1alpha1.BareMetalHostStatus) { s.LastAttemptedImage = &v1alpha1.Image{URL: url} })
	},
	"BareMetalHost status.lastAttemptedImage.checksum": func(url string) field.ErrorList {
		return statusWith(func(s *v1alpha1.BareMetalHostStatus) {
			s.LastAttemptedImage = &v1alpha1.Image{URL: "http://a/b", Checksum: url}
		})
	},
	"HostClaim spec.image.url": func(url string) field.ErrorList {
		return ValidateHostClaim(&v1alpha1.HostClaim{Spec: v1alpha1.HostClaimSpec{Image: &v1alpha1.Image{URL: url, Checksum: "a"}}}, nil)
	},
	"HostClaim spec.image.checksum": func(url string) field.ErrorList {
		return ValidateHostClaim(&v1alpha1.HostClaim{Spec: v1alpha1.HostClaimSpec{Image: &v1alpha1.Image{URL: "http://a/b", Checksum: url}}}, nil)
	},
	"DataImage spec.url": func(url string) field.ErrorList {
		return ValidateDataImage(&v1alpha1.DataImage{Spec: v1alpha1.DataImageSpec{URL: url}}, nil)
	},
	"HostFirmwareComponents spec.updates[].url": func(url string) field.ErrorList {
		return ValidateHostFirmwareComponents(&v1alpha1.HostFirmwareComponents{Spec: v1alpha1.HostFirmwareComponentsSpec{
			Updates: []v1alpha1.FirmwareUpdate{{Component: "bmc", URL: url}},
		}}, nil)
	},
	"BMCEventSubscription spec.destination": func(url string) field.ErrorList {
		return ValidateBMCEventSubscription(&v1alpha1.BMCEventSubscription{Spec: v1alpha1.BMCEventSubscriptionSpec{HostName: "a", Destination: url}}, nil)
	},
	"HostClean spec.steps[].args": func(url string) (errs field.ErrorList) {
		steps, err := AllowCleanSteps(nil)
		if err != nil {
			panic(err)
		}
		for _, args := range []map[string]any{
			{"url": url}, {"list": []any{map[string]any{"deep": []any{1, true, nil, url}}}}, {"by": map[string]any{url: 1}},
		} {
			raw, err := json.Marshal(args)
			if err != nil {
				panic(err)
			}
			found := ValidateHostClean(&v1alpha1.HostClean{Spec: v1alpha1.HostCleanSpec{Steps: []v1alpha1.CleanStep{
				{Interface: "deploy", Step: "erase_devices", Args: &runtime.RawExtension{Raw: raw}},
			}}}, steps)
			if len(found) == 0 {
				return nil
			}
			errs = append(errs, found...)
		}
		return errs
	},

	"DataImage status.attachedImage.url":                            "what this server has attached",
	"PreprovisioningImage status.imageUrl":                          "registrar checks it before Ironic is told it, because this server may have written it and its own flags allow more",
	"PreprovisioningImage status.kernelUrl":                         "as imageUrl",
	"BareMetalHost status.record.requestedClean.steps[].args":       "as the request that it is from: nobody else can write it",
	"BareMetalHost status.record.preparation.firmwareUpdates[].url": "what this server has requested",
	"BareMetalHost status.record.servicing.firmwareUpdates[].url":   "what this server has requested",
	"HostFirmwareComponents status.updates[].url":                   "what this server has requested",
	"HostRebuild status.image.url":                                  "an answer",
	"HostRebuild status.image.checksum":                             "an answer",
	"BareMetalSwitch spec.address":                                  "a host name or IP address for networking-generic-switch, not a URL",
}

// isNoURL is of names of fields with addresses of another kind.
var isNoURL = regexp.MustCompile(`(?i)(mac|pci|ip)address(es)?$|checksumtype$`)

var mayBeURL = regexp.MustCompile(`(?i)ur[il]s?$|address(es)?$|destination|endpoint|checksum|location|^args$|href|link`)

// TestAllURLs: whatever can be written as a URL is checked, in all kinds. A new field has to be
// added to urlFields.
func TestAllURLs(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for kind, typ := range scheme.KnownTypes(v1alpha1.SchemeGroupVersion) {
		if typ.PkgPath() == reflect.TypeFor[v1alpha1.BareMetalHost]().PkgPath() && !strings.HasSuffix(kind, "List") {
			fieldsOf(typ, kind+" ", nil, found)
		}
	}
	if len(found) < len(urlFields)/2 {
		t.Fatalf("only %d fields found", len(found))
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if _, known := urlFields[name]; !known {
			t.Errorf("nothing says who checks %s", name)
		}
	}
	for name, validate := range urlFields {
		if !found[name] {
			t.Errorf("there is no field %s", name)
		}
		validate, ok := validate.(func(string) field.ErrorList)
		if !ok {
			continue
		}
		_, path, _ := strings.Cut(name, " ")
		path = strings.ReplaceAll(path, "[]", "[0]")
		for _, url := range hostileURLs {
			errs := validate(url)
			if len(errs) == 0 {
				t.Errorf("%s: %q is accepted", name, url)
			}
			for _, err := range errs {
				if !strings.HasPrefix(err.Field, path) || strings.Contains(err.Error(), "secret") {
					t.Errorf("%s: %q: %v", name, url, err)
				}
			}
		}
	}
	// The same status, in the annotation with which a host is moved here.
	for _, url := range hostileURLs {
		status, err := json.Marshal(v1alpha1.BareMetalHostStatus{Provisioning: v1alpha1.ProvisionStatus{Image: v1alpha1.Image{URL: url}}})
		if err != nil {
			t.Fatal(err)
		}
		host := hostWith(func(h *v1alpha1.BareMetalHost) {
			h.Annotations = map[string]string{v1alpha1.StatusAnnotation: string(status)}
		})
		if errs := ValidateBareMetalHost(host); len(errs) == 0 {
			t.Errorf("the annotation: %q is accepted", url)
		}
	}
}

// fieldsOf adds the paths of all fields of a type that may have a URL. parents are the types that it is in.
func fieldsOf(typ reflect.Type, path string, parents []reflect.Type, found map[string]bool) {
	switch typ.Kind() {
	case reflect.Pointer:
		fieldsOf(typ.Elem(), path, parents, found)
	case reflect.Slice, reflect.Map:
		fieldsOf(typ.Elem(), path+"[]", parents, found)
	case reflect.Struct:
		if slices.Contains(parents, typ) || typ == reflect.TypeFor[metav1.ObjectMeta]() || typ == reflect.TypeFor[metav1.Time]() {
			return
		}
		for i := range typ.NumField() {
			member := typ.Field(i)
			name, _, _ := strings.Cut(member.Tag.Get("json"), ",")
			inner := path
			if name != "" {
				if !strings.HasSuffix(path, " ") {
					inner += "."
				}
				inner += name
			}
			if mayBeURL.MatchString(name) && !isNoURL.MatchString(name) {
				found[inner] = true
			}
			fieldsOf(member.Type, inner, append(parents, typ), found)
		}
	}
}

func hostWith(change func(*v1alpha1.BareMetalHost)) *v1alpha1.BareMetalHost {
	host := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "b"}}
	change(host)
	return host
}

func statusWith(change func(*v1alpha1.BareMetalHostStatus)) field.ErrorList {
	host := hostWith(func(*v1alpha1.BareMetalHost) {})
	host.ResourceVersion = "1"
	changed := host.DeepCopy()
	change(&changed.Status)
	return ValidateBareMetalHostStatusUpdate(changed, host)
}
