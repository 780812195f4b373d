// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	api "github.com/metal3-io/metal3-apiserver/pkg/apis/ironic/v1alpha1"
)

const endpoint = "https://ironic.room-b.example:6385"

// authority returns a certificate and its private key in PEM.
func authority(t *testing.T) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(1)}, &x509.Certificate{}, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
}

func TestValidateIronicInstance(t *testing.T) {
	certificate, key := authority(t)
	selector := func(key string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{key: "b"}}
	}
	ramdisk := func(r api.IronicRamdisk) api.IronicInstanceSpec {
		return api.IronicInstanceSpec{Endpoint: endpoint, Ramdisk: &r}
	}
	bundle := func(pems ...[]byte) api.IronicInstanceSpec {
		var all []byte
		for _, p := range pems {
			all = append(all, p...)
		}
		return api.IronicInstanceSpec{Endpoint: endpoint, CABundle: all}
	}
	ref := func(namespace, name string) *api.IronicReference {
		return &api.IronicReference{Namespace: namespace, Name: name}
	}
	groups := func(g api.IronicConductorGroups) api.IronicInstanceSpec {
		return api.IronicInstanceSpec{Endpoint: endpoint, ConductorGroups: &g}
	}
	limits := func(request, read time.Duration) api.IronicInstanceSpec {
		return api.IronicInstanceSpec{Endpoint: endpoint, RequestTimeout: &metav1.Duration{Duration: request}, ReadTimeout: &metav1.Duration{Duration: read}}
	}
	many := map[string]string{}
	for i := range maxDomains + 1 {
		many[fmt.Sprint(i)] = "rack"
	}
	for name, test := range map[string]struct {
		spec api.IronicInstanceSpec
		want string // the beginning of the only error; empty means valid
	}{
		"endpoint":                 {api.IronicInstanceSpec{Endpoint: endpoint}, ""},
		"endpoint with a path":     {api.IronicInstanceSpec{Endpoint: "http://[fd00::1]/baremetal/v1/"}, ""},
		"basic authentication":     {api.IronicInstanceSpec{Endpoint: endpoint, CredentialsName: "room-b"}, ""},
		"cloud":                    {api.IronicInstanceSpec{Cloud: "metal", CredentialsName: "room-b"}, ""},
		"cloud and endpoint":       {api.IronicInstanceSpec{Cloud: "metal", CredentialsName: "room-b", Endpoint: endpoint}, ""},
		"Ironic object":            {api.IronicInstanceSpec{IronicRef: ref("", "ironic"), CABundle: certificate}, ""},
		"Ironic of a namespace":    {api.IronicInstanceSpec{IronicRef: ref("room-b", "ironic")}, ""},
		"Ironic without name":      {api.IronicInstanceSpec{IronicRef: ref("room-b", "")}, "spec.ironicRef.name: Required value"},
		"Ironic, not a Service":    {api.IronicInstanceSpec{IronicRef: ref("", "9.b")}, "spec.ironicRef.name: Invalid value: \"9.b\""},
		"Ironic in no namespace":   {api.IronicInstanceSpec{IronicRef: ref("a/b", "ironic")}, "spec.ironicRef.namespace: Invalid value: \"a/b\""},
		"Ironic and endpoint":      {api.IronicInstanceSpec{IronicRef: ref("", "ironic"), Endpoint: endpoint}, "spec.endpoint: Forbidden"},
		"Ironic and cloud":         {api.IronicInstanceSpec{IronicRef: ref("", "ironic"), Cloud: "metal"}, "spec.cloud: Forbidden"},
		"Ironic and Secret":        {api.IronicInstanceSpec{IronicRef: ref("", "ironic"), CredentialsName: "room-b"}, "spec.credentialsName: Forbidden"},
		"time-outs":                {limits(time.Second, 30*time.Second), ""},
		"long time-outs":           {limits(10*time.Minute, 100*time.Millisecond), ""},
		"short request":            {limits(time.Second-1, time.Second), "spec.requestTimeout: Invalid value: \"999.999999ms\": must be from 1s to 10m0s"},
		"long request":             {limits(11*time.Minute, time.Second), "spec.requestTimeout: Invalid value: \"11m0s\""},
		"short read":               {limits(time.Second, 0), "spec.readTimeout: Invalid value: \"0s\": must be from 100ms to 30s"},
		"long read":                {limits(time.Second, time.Minute), "spec.readTimeout: Invalid value: \"1m0s\""},
		"groups":                   {groups(api.IronicConductorGroups{Label: "example.com/zone", ByFailureDomain: map[string]string{"Zone_A": "rack-1.a_b", "": "c"}, Default: "other"}), ""},
		"group by default":         {groups(api.IronicConductorGroups{Default: "other"}), ""},
		"no group":                 {groups(api.IronicConductorGroups{Label: "zone"}), "spec.conductorGroups.byFailureDomain: Required value"},
		"no label":                 {groups(api.IronicConductorGroups{Label: "a b", Default: "other"}), "spec.conductorGroups.label: Invalid value: \"a b\""},
		"no failure domain":        {groups(api.IronicConductorGroups{ByFailureDomain: map[string]string{"a b": "c"}}), "spec.conductorGroups.byFailureDomain[a b]: Invalid value: \"a b\""},
		"group in capitals":        {groups(api.IronicConductorGroups{ByFailureDomain: map[string]string{"a": "Rack"}}), "spec.conductorGroups.byFailureDomain[a]: Invalid value: \"Rack\""},
		"empty group":              {groups(api.IronicConductorGroups{ByFailureDomain: map[string]string{"a": ""}}), "spec.conductorGroups.byFailureDomain[a]: Invalid value: \"\""},
		"long group":               {groups(api.IronicConductorGroups{Default: strings.Repeat("a", maxGroup+1)}), "spec.conductorGroups.default: Too long"},
		"many failure domains":     {groups(api.IronicConductorGroups{ByFailureDomain: many}), "spec.conductorGroups.byFailureDomain: Too many"},
		"nothing":                  {api.IronicInstanceSpec{}, "spec.endpoint: Required value: must be the URL"},
		"another scheme":           {api.IronicInstanceSpec{Endpoint: "ftp://ironic"}, "spec.endpoint: Invalid value: must be a URL with one of the schemes http, https"},
		"no scheme":                {api.IronicInstanceSpec{Endpoint: "ironic:6385"}, "spec.endpoint: Invalid value: must be a URL"},
		"credentials":              {api.IronicInstanceSpec{Endpoint: "https://admin:s3cret@ironic"}, "spec.endpoint: Invalid value: must not contain a user name or password"},
		"credentials, no URL":      {api.IronicInstanceSpec{Endpoint: "https://admin:s3cret@ironic:x"}, "spec.endpoint: Invalid value: must be a URL"},
		"query":                    {api.IronicInstanceSpec{Endpoint: "https://ironic?token=s3cret"}, "spec.endpoint: Invalid value: must not have a query"},
		"fragment":                 {api.IronicInstanceSpec{Endpoint: "https://ironic/#s3cret"}, "spec.endpoint: Invalid value: must not have a query or a fragment"},
		"line break":               {api.IronicInstanceSpec{Endpoint: endpoint + "\n"}, "spec.endpoint: Invalid value: must be a URL"},
		"long endpoint":            {api.IronicInstanceSpec{Endpoint: "https://ironic/" + strings.Repeat("a", maxURL)}, "spec.endpoint: Too long"},
		"cloud without Secret":     {api.IronicInstanceSpec{Cloud: "metal"}, "spec.credentialsName: Required value: must name the Secret"},
		"long cloud":               {api.IronicInstanceSpec{Cloud: strings.Repeat("a", maxName+1), CredentialsName: "b"}, "spec.cloud: Too long"},
		"name of a Secret":         {api.IronicInstanceSpec{Endpoint: endpoint, CredentialsName: "other/secret"}, "spec.credentialsName: Invalid value: \"other/secret\""},
		"certificates":             {bundle([]byte("# Room B\n"), certificate, []byte("\n"), certificate), ""},
		"no certificate":           {bundle([]byte("s3cret")), "spec.caBundle: Invalid value: must have certificates in PEM"},
		"private key":              {bundle(certificate, key), "spec.caBundle: Invalid value: must have nothing but certificates, and block 2"},
		"broken certificate":       {bundle(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("s3cret")})), "spec.caBundle: Invalid value: block 1 is not a valid certificate"},
		"cut certificate":          {bundle(certificate, certificate[:len(certificate)/2]), "spec.caBundle: Invalid value: block 2 is not valid PEM"},
		"long bundle":              {bundle(certificate, make([]byte, maxCABundle)), "spec.caBundle: Too long"},
		"selectors":                {api.IronicInstanceSpec{Endpoint: endpoint, NamespaceSelector: selector("room"), Selector: &metav1.LabelSelector{}}, ""},
		"namespaces selected":      {api.IronicInstanceSpec{Endpoint: endpoint, NamespaceSelector: selector("a b")}, "spec.namespaceSelector.matchLabels: Invalid value"},
		"hosts selected":           {api.IronicInstanceSpec{Endpoint: endpoint, Selector: selector("a b")}, "spec.selector.matchLabels: Invalid value"},
		"limit":                    {api.IronicInstanceSpec{Endpoint: endpoint, ProvisioningLimit: ptr.To[int32](0)}, ""},
		"negative limit":           {api.IronicInstanceSpec{Endpoint: endpoint, ProvisioningLimit: ptr.To[int32](-1)}, "spec.provisioningLimit: Invalid value: -1"},
		"ramdisk":                  {ramdisk(api.IronicRamdisk{KernelURL: "http://a/k", RamdiskURL: "http://a/r", ISOURL: "https://a/i", KernelParams: "a=b c"}), ""},
		"kernel alone":             {ramdisk(api.IronicRamdisk{KernelURL: "http://a/k"}), "spec.ramdisk.ramdiskURL: Required value"},
		"RAM disk alone":           {ramdisk(api.IronicRamdisk{RamdiskURL: "http://a/r"}), "spec.ramdisk.kernelURL: Required value"},
		"ISO that is a file":       {ramdisk(api.IronicRamdisk{ISOURL: "file:///etc/passwd"}), "spec.ramdisk.isoURL: Invalid value: must be a URL"},
		"ISO with credentials":     {ramdisk(api.IronicRamdisk{ISOURL: "http://u:s3cret@a/i"}), "spec.ramdisk.isoURL: Invalid value: must not contain a user name"},
		"parameters of two lines":  {ramdisk(api.IronicRamdisk{KernelParams: "a\nb"}), "spec.ramdisk.kernelParams: Invalid value: must be one line"},
		"long parameters":          {ramdisk(api.IronicRamdisk{KernelParams: strings.Repeat("a", maxKernelParams+1)}), "spec.ramdisk.kernelParams: Too long"},
		"default without selector": {api.IronicInstanceSpec{Endpoint: endpoint, Default: true}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			instance := &api.IronicInstance{Spec: test.spec}
			errs := ValidateIronicInstance(instance, nil)
			if test.want == "" {
				if len(errs) > 0 {
					t.Errorf("refused: %v", errs)
				}
				return
			}
			if len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), test.want) {
				t.Fatalf("got %v, want one error: %s", errs, test.want)
			}
			if strings.Contains(errs[0].Error(), "s3cret") {
				t.Errorf("the error repeats a password: %v", errs[0])
			}
			if errs := ValidateIronicInstance(instance, &api.IronicInstance{Spec: test.spec}); len(errs) > 0 {
				t.Errorf("metadata of such an object cannot change: %v", errs)
			}
			if errs := ValidateIronicInstance(instance, &api.IronicInstance{Spec: api.IronicInstanceSpec{Endpoint: endpoint}}); len(errs) != 1 {
				t.Errorf("a change to it: %v", errs)
			}
		})
	}
}

func TestWarnOfIronicInstance(t *testing.T) {
	for name, test := range map[string]struct {
		spec  api.IronicInstanceSpec
		warns bool
	}{
		"nothing":            {api.IronicInstanceSpec{}, true},
		"default":            {api.IronicInstanceSpec{Default: true}, false},
		"selector":           {api.IronicInstanceSpec{Selector: &metav1.LabelSelector{}}, false},
		"namespace selector": {api.IronicInstanceSpec{NamespaceSelector: &metav1.LabelSelector{}}, false},
	} {
		if got := WarnOfIronicInstance(&api.IronicInstance{Spec: test.spec}); len(got) > 0 != test.warns {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestCanonicalEndpoint(t *testing.T) {
	for given, want := range map[string]string{
		"http://ironic:6385":                  "http://ironic:6385",
		"http://IRONIC:6385/":                 "http://ironic:6385",
		"HTTP://ironic.:6385/v1/":             "http://ironic:6385",
		"http://ironic":                       "http://ironic:80",
		"http://ironic:80/v1":                 "http://ironic:80",
		"https://ironic":                      "https://ironic:443",
		"https://ironic:443/baremetal//v1///": "https://ironic:443/baremetal",
		"https://ironic:443/baremetal":        "https://ironic:443/baremetal",
		"http://[FD00::1]/v1":                 "http://[fd00::1]:80",
		"https://ironic:6385/BareMetal":       "https://ironic:6385/BareMetal",
		"":                                    "",
		"ironic:6385":                         "",
	} {
		if got := CanonicalEndpoint(given); got != want {
			t.Errorf("CanonicalEndpoint(%q) = %q, want %q", given, got, want)
		}
	}
}

func TestGroupOf(t *testing.T) {
	zone := func(value string) map[string]string {
		return map[string]string{api.FailureDomainLabel: value, "rack": "7"}
	}
	byZone := map[string]string{"a": "group-a"}
	for name, test := range map[string]struct {
		groups *api.IronicConductorGroups
		labels map[string]string
		want   string
	}{
		"nothing said":   {nil, zone("a"), ""},
		"mapped":         {&api.IronicConductorGroups{ByFailureDomain: byZone, Default: "other"}, zone("a"), "group-a"},
		"not mapped":     {&api.IronicConductorGroups{ByFailureDomain: byZone}, zone("b"), ""},
		"by default":     {&api.IronicConductorGroups{ByFailureDomain: byZone, Default: "other"}, zone("b"), "other"},
		"no label":       {&api.IronicConductorGroups{ByFailureDomain: byZone, Default: "other"}, nil, "other"},
		"of other label": {&api.IronicConductorGroups{Label: "rack", ByFailureDomain: map[string]string{"7": "rack-7"}}, zone("a"), "rack-7"},
	} {
		if got := test.groups.GroupOf(test.labels); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
