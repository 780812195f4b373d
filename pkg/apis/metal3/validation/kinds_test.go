// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// check is an object and the errors that it should have. The samples of pkg/registry/metal3
// test each rule; the tests in this file are about rules that involve more than one object,
// and about those that are easy to get wrong.
type check[T any] struct {
	obj  T
	want []string
}

// run validates the first object as a new one, and each other object as an update of the
// one before.
func run[T any](t *testing.T, name string, validate func(obj, old *T) field.ErrorList, checks ...check[T]) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		var old *T
		for i := range checks {
			expect(t, validate(&checks[i].obj, old), checks[i].want...)
			old = &checks[i].obj
		}
	})
}

func TestValidateHostNetworkAttachment(t *testing.T) {
	attachment := func(mode v1alpha1.SwitchPortMode, allowed ...string) v1alpha1.HostNetworkAttachment {
		return v1alpha1.HostNetworkAttachment{Spec: v1alpha1.HostNetworkAttachmentSpec{Mode: mode, NativeVLAN: 1, AllowedVLANs: allowed}}
	}
	for _, good := range []string{"1", "4094", "3995-4094", "9-10", "007"} {
		run(t, good, ValidateHostNetworkAttachment, check[v1alpha1.HostNetworkAttachment]{obj: attachment("trunk", good)})
	}
	for _, bad := range []string{"", "0", "4095", "10-10", "10-9", "0-1", "1-4095", "-1", "+1", "1-", "1-2-3", "1 - 2", "99999999999999999999", "1-99999999999999999999", "a"} {
		run(t, bad, ValidateHostNetworkAttachment, check[v1alpha1.HostNetworkAttachment]{attachment("hybrid", "1", bad), []string{"spec.allowedVLANs[1]: must be a VLAN identifier"}})
	}
	run(t, "many", ValidateHostNetworkAttachment,
		check[v1alpha1.HostNetworkAttachment]{attachment("trunk", "1-60", "41-100"), nil}, // each once
		check[v1alpha1.HostNetworkAttachment]{attachment("trunk", "1-4094"), []string{"spec.allowedVLANs: Ironic accepts at most 100 VLANs"}},
		check[v1alpha1.HostNetworkAttachment]{attachment("trunk", "1-4094"), nil}, // the error existed before the update
		check[v1alpha1.HostNetworkAttachment]{attachment("trunk", "1-99", "4000-4001"), []string{"spec.allowedVLANs: Ironic accepts at most 100 VLANs"}},
	)
	run(t, "access", ValidateHostNetworkAttachment,
		check[v1alpha1.HostNetworkAttachment]{attachment("access"), nil},
		check[v1alpha1.HostNetworkAttachment]{attachment("access", "1"), []string{"spec.allowedVLANs: use trunk or hybrid"}},
		check[v1alpha1.HostNetworkAttachment]{attachment("access", "1"), nil}, // the error existed before the update
		check[v1alpha1.HostNetworkAttachment]{attachment("accesss", "1"), []string{"spec.mode: supported values"}},
	)
}

func TestValidateHostClaim(t *testing.T) {
	requirement := func(operator selection.Operator, values ...string) v1alpha1.HostClaim {
		return v1alpha1.HostClaim{Spec: v1alpha1.HostClaimSpec{HostSelector: v1alpha1.HostSelector{
			MatchExpressions: []v1alpha1.HostSelectorRequirement{{Key: "example.com/rack", Operator: operator, Values: values}},
		}}}
	}
	const path = "spec.hostSelector.matchExpressions[0]."
	for operator, most := range map[selection.Operator]int{"=": 1, "==": 1, "!=": 1, "in": 2, "notin": 2, "exists": 0, "!": 0} {
		for number := range 3 {
			values := make([]string, number)
			var want []string
			if number > most || number == 0 && most > 0 {
				want = []string{path + "values: with the operator " + string(operator)}
			}
			run(t, string(operator), ValidateHostClaim, check[v1alpha1.HostClaim]{requirement(operator, values...), want})
		}
	}
	run(t, "no list of values", ValidateHostClaim, check[v1alpha1.HostClaim]{requirement("exists"), []string{path + "values: Required"}})
	run(t, "operators", ValidateHostClaim, check[v1alpha1.HostClaim]{requirement("In", "a"), []string{path + "operator: supported values"}})
	run(t, "values", ValidateHostClaim, check[v1alpha1.HostClaim]{requirement("in", "a", "b c"), []string{path + "values[1]: a valid label"}})

	claim := v1alpha1.HostClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Annotations: map[string]string{"reboot.metal3.io/x": "now", "other": "now"}}}
	claim.Spec.UserData = &corev1.SecretReference{Name: "a", Namespace: "other"}
	claim.Spec.MetaData = &corev1.SecretReference{Name: "a", Namespace: "team"}
	claim.Spec.NetworkData = &corev1.SecretReference{Name: "a"}
	claim.Spec.Image = &v1alpha1.Image{URL: "http://192.0.2.1/a"}
	claim.Spec.CustomDeploy = &v1alpha1.CustomDeploy{}
	claim.Spec.HostSelector.MatchLabels = map[string]string{"a b": "c", "d": "e f"}
	run(t, "all at once", ValidateHostClaim, check[v1alpha1.HostClaim]{claim, []string{
		"metadata.annotations[reboot.metal3.io/x]: must be empty or JSON",
		"spec.userData.namespace: must be empty or the namespace of the object itself, team",
		"spec.image.checksum: Required",
		"spec.customDeploy.method: Required",
		"spec.hostSelector.matchLabels[a b]: name part",
		"spec.hostSelector.matchLabels[d]: a valid label",
	}})
	reboots := func(number int) (claim v1alpha1.HostClaim) {
		for i := range number {
			metav1.SetMetaDataAnnotation(&claim.ObjectMeta, fmt.Sprint("reboot.metal3.io/", i), "")
		}
		return claim
	}
	run(t, "reboots", ValidateHostClaim, check[v1alpha1.HostClaim]{reboots(16), nil}, check[v1alpha1.HostClaim]{reboots(17), []string{"metadata.annotations: must have at most 16 items"}})
	bound := v1alpha1.HostClaim{Status: v1alpha1.HostClaimStatus{HardwareData: &v1alpha1.ObjectReference{Name: "a"}}}
	run(t, "status", ValidateHostClaim, check[v1alpha1.HostClaim]{}, check[v1alpha1.HostClaim]{bound, []string{"status.hardwareData.namespace: Required"}})
	// All claims wait while a selector is compared with each host.
	many := func(expressions, values int) v1alpha1.HostClaim {
		claim := requirement("in", slices.Repeat([]string{"r1"}, values)...)
		claim.Spec.HostSelector.MatchExpressions = slices.Repeat(claim.Spec.HostSelector.MatchExpressions, expressions)
		return claim
	}
	const expressions = "spec.hostSelector.matchExpressions: "
	changed := many(101, 10)
	changed.Spec.PoweredOn = true
	run(t, "long", ValidateHostClaim,
		check[v1alpha1.HostClaim]{many(100, 10), nil},
		check[v1alpha1.HostClaim]{many(1, 1000), nil},
		check[v1alpha1.HostClaim]{many(1, 1001), []string{expressions + "may have at most 1000 values, and has 1001"}},
		check[v1alpha1.HostClaim]{many(101, 10), []string{expressions + "must have at most 100 items", expressions + "may have at most 1000 values, and has 1010"}},
		check[v1alpha1.HostClaim]{changed, nil}, // the error existed before the update
	)
}

func TestValidateBMCEventSubscription(t *testing.T) {
	subscription := func(destination string) v1alpha1.BMCEventSubscription {
		return v1alpha1.BMCEventSubscription{ObjectMeta: metav1.ObjectMeta{Namespace: "metal3"}, Spec: v1alpha1.BMCEventSubscriptionSpec{HostName: "h", Destination: destination}}
	}
	for _, good := range []string{"https://a/", "https://a/b?c", "http://a:80/"} {
		run(t, good, ValidateBMCEventSubscription, check[v1alpha1.BMCEventSubscription]{obj: subscription(good)})
	}
	for bad, want := range map[string]string{"": "Required", "https://a": "add a slash", "a": "must be a URL", "/a": "must be a URL", "https://a b/": "must be a URL"} {
		run(t, bad, ValidateBMCEventSubscription, check[v1alpha1.BMCEventSubscription]{subscription(bad), []string{"spec.destination: " + want}})
	}
	headers := func(namespace string) v1alpha1.BMCEventSubscription {
		s := subscription("https://a/")
		s.Spec.HTTPHeadersRef = &corev1.SecretReference{Name: "headers", Namespace: namespace}
		return s
	}
	const same = "spec.httpHeadersRef.namespace: must be the namespace of the subscription, metal3"
	run(t, "headers", ValidateBMCEventSubscription, check[v1alpha1.BMCEventSubscription]{obj: headers("metal3")})
	run(t, "headers in another namespace", ValidateBMCEventSubscription, check[v1alpha1.BMCEventSubscription]{headers("other"), []string{same}})
	run(t, "headers without a namespace", ValidateBMCEventSubscription, check[v1alpha1.BMCEventSubscription]{headers(""), []string{same}})

	labelled := headers("metal3")
	labelled.Labels, labelled.Status.Error = map[string]string{"a": "b"}, "refused"
	run(t, "the spec is immutable", ValidateBMCEventSubscription,
		check[v1alpha1.BMCEventSubscription]{headers("metal3"), nil},
		check[v1alpha1.BMCEventSubscription]{labelled, nil},
		check[v1alpha1.BMCEventSubscription]{subscription("https://a/"), []string{"spec: Forbidden: cannot be changed"}})
}

func TestValidateFirmware(t *testing.T) {
	settings := func(spec v1alpha1.DesiredSettingsMap, status v1alpha1.HostFirmwareSettingsStatus) v1alpha1.HostFirmwareSettings {
		return v1alpha1.HostFirmwareSettings{Spec: v1alpha1.HostFirmwareSettingsSpec{Settings: spec}, Status: status}
	}
	some := v1alpha1.DesiredSettingsMap{"Retries": intstr.FromInt32(3)}
	now := ptr.To(metav1.Now())
	run(t, "settings", ValidateHostFirmwareSettings,
		check[v1alpha1.HostFirmwareSettings]{settings(nil, v1alpha1.HostFirmwareSettingsStatus{}), []string{"spec.settings: Required"}})
	run(t, "status of settings", ValidateHostFirmwareSettings,
		check[v1alpha1.HostFirmwareSettings]{settings(some, v1alpha1.HostFirmwareSettingsStatus{}), nil},
		check[v1alpha1.HostFirmwareSettings]{settings(some, v1alpha1.HostFirmwareSettingsStatus{LastUpdated: now}), []string{"status.settings: Required"}},
		check[v1alpha1.HostFirmwareSettings]{settings(some, v1alpha1.HostFirmwareSettingsStatus{LastUpdated: now, Settings: v1alpha1.SettingsMap{}}), nil},
		check[v1alpha1.HostFirmwareSettings]{settings(v1alpha1.DesiredSettingsMap{}, v1alpha1.HostFirmwareSettingsStatus{Settings: v1alpha1.SettingsMap{}, FirmwareSchema: &v1alpha1.SchemaReference{Name: "a"}}),
			[]string{"status.schema.namespace: Required"}})

	updates := func(updates ...v1alpha1.FirmwareUpdate) v1alpha1.HostFirmwareComponents {
		return v1alpha1.HostFirmwareComponents{Spec: v1alpha1.HostFirmwareComponentsSpec{Updates: updates}}
	}
	run(t, "no list of updates", ValidateHostFirmwareComponents, check[v1alpha1.HostFirmwareComponents]{updates(), []string{"spec.updates: Required"}})
	run(t, "updates", ValidateHostFirmwareComponents,
		check[v1alpha1.HostFirmwareComponents]{updates(v1alpha1.FirmwareUpdate{Component: "bios", URL: "https://a/b"}), nil},
		check[v1alpha1.HostFirmwareComponents]{updates(v1alpha1.FirmwareUpdate{}), []string{"spec.updates[0].component: Required", "spec.updates[0].url: Required"}},
		check[v1alpha1.HostFirmwareComponents]{updates(v1alpha1.FirmwareUpdate{Component: "whatever", URL: "file:///b"}), []string{"spec.updates[0].url: must be a URL with one of the schemes"}})
	run(t, "a password in a URL", ValidateHostFirmwareComponents,
		check[v1alpha1.HostFirmwareComponents]{updates(v1alpha1.FirmwareUpdate{Component: "bmc", URL: "tftp://user:secret@a/b"}), []string{"spec.updates[0].url"}})
	for _, err := range ValidateHostFirmwareComponents(ptr.To(updates(v1alpha1.FirmwareUpdate{Component: "bmc", URL: "tftp://user:hunter2@a/b"})), nil) {
		if got := err.Error(); strings.Contains(got, "hunter2") {
			t.Errorf("the message has the password: %s", got)
		}
	}

	schema := v1alpha1.FirmwareSchema{Spec: v1alpha1.FirmwareSchemaSpec{Schema: map[string]v1alpha1.SettingSchema{
		"Boot Mode": {AttributeType: "Enumeration"}, "None": {}, "Odd": {AttributeType: "boolean"},
	}}}
	run(t, "schema", ValidateFirmwareSchema, check[v1alpha1.FirmwareSchema]{schema, []string{"spec.schema[Odd].attribute_type: supported values"}}, check[v1alpha1.FirmwareSchema]{schema, nil})
}

func TestValidateImages(t *testing.T) {
	image := func(url string) v1alpha1.DataImage { return v1alpha1.DataImage{Spec: v1alpha1.DataImageSpec{URL: url}} }
	run(t, "data image", ValidateDataImage,
		check[v1alpha1.DataImage]{image("oci://a/b"), nil},
		check[v1alpha1.DataImage]{image(""), []string{"spec.url: Required"}},
		check[v1alpha1.DataImage]{image(""), nil},
		check[v1alpha1.DataImage]{image("s3://a/b"), []string{"spec.url: http, https, oci"}})
	var ppimg v1alpha1.PreprovisioningImage
	ppimg.Spec.AcceptFormats = []v1alpha1.ImageFormat{"iso", "qcow2", ""}
	ppimg.Status.Format = "ISO"
	ppimg.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "yes", Reason: "Built", LastTransitionTime: metav1.Now()}}
	run(t, "preprovisioning image", ValidatePreprovisioningImage, check[v1alpha1.PreprovisioningImage]{ppimg, []string{
		"spec.acceptFormats[1]: supported values", "spec.acceptFormats[2]: Required", "status.format: supported values", "status.conditions[0].status: supported values",
	}})
}

func TestValidateBareMetalSwitch(t *testing.T) {
	device := v1alpha1.BareMetalSwitch{Spec: v1alpha1.BareMetalSwitchSpec{Address: "a", MACAddress: "00:00:5E:00:53:01", DeviceType: "netmiko_arista_eos"}}
	bad := device
	bad.Spec.MACAddress, bad.Spec.Port, bad.Spec.Driver = "x00:00:5e:00:53:01", ptr.To[int32](65536), "ssh"
	run(t, "one by one", ValidateBareMetalSwitch,
		check[v1alpha1.BareMetalSwitch]{device, nil},
		check[v1alpha1.BareMetalSwitch]{bad, []string{"spec.macAddress: six pairs", "spec.driver: supported values", "spec.port: 1 to 65535"}},
		check[v1alpha1.BareMetalSwitch]{v1alpha1.BareMetalSwitch{}, []string{"spec.address: Required", "spec.macAddress: Required", "spec.deviceType: Required"}})
}

func TestValidatePolicies(t *testing.T) {
	update := v1alpha1.HostUpdatePolicy{Spec: v1alpha1.HostUpdatePolicySpec{FirmwareSettings: "onReboot", FirmwareUpdates: "never"}}
	run(t, "update", ValidateHostUpdatePolicy, check[v1alpha1.HostUpdatePolicy]{}, check[v1alpha1.HostUpdatePolicy]{update, []string{"spec.firmwareUpdates: supported values"}})
	deploy := v1alpha1.HostDeployPolicy{Spec: v1alpha1.HostDeployPolicySpec{HostClaimNamespaces: &v1alpha1.HostClaimNamespaces{
		NameMatches: "^prod$", HasLabels: []v1alpha1.NameValuePair{{Name: "a"}, {Value: "b"}},
	}}}
	run(t, "deploy", ValidateHostDeployPolicy, check[v1alpha1.HostDeployPolicy]{}, check[v1alpha1.HostDeployPolicy]{deploy, []string{"spec.hostClaimNamespaces.hasLabels[1].name: Required"}})

	matching := func(expression string, names ...string) v1alpha1.HostDeployPolicy {
		return v1alpha1.HostDeployPolicy{Spec: v1alpha1.HostDeployPolicySpec{HostClaimNamespaces: &v1alpha1.HostClaimNamespaces{NameMatches: expression, Names: names}}}
	}
	bomb := "^(" + strings.Repeat("a?", 200) + "){1000}$"
	const path = "spec.hostClaimNamespaces.nameMatches: "
	run(t, "expensive", ValidateHostDeployPolicy,
		check[v1alpha1.HostDeployPolicy]{matching(bomb), []string{path + "may have at most 1000 steps, and has 603606 with its repetitions written out: make these fewer"}},
		check[v1alpha1.HostDeployPolicy]{matching(bomb, "other"), nil}, // the error existed before the update
		check[v1alpha1.HostDeployPolicy]{matching("^" + bomb), []string{path + "may have at most 1000 steps"}},
		check[v1alpha1.HostDeployPolicy]{matching(strings.Repeat("a", 1025)), []string{path + "may have at most 1024 bytes, and has 1025"}},
		check[v1alpha1.HostDeployPolicy]{matching("("), []string{path + "must be a regular expression: error parsing regexp: missing closing ): `("}},
		check[v1alpha1.HostDeployPolicy]{matching("^team-[0-9]{1,10}$"), nil})
}
