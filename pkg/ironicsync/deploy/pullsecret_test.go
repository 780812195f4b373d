// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	configJSON = "kubernetes.io/dockerconfigjson"
	configCfg  = "kubernetes.io/dockercfg"
)

func encoded(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// auths is a docker configuration with "user:password" of each registry.
func auths(pairs ...string) map[string][]byte {
	entries := map[string]map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		entries[pairs[i]] = map[string]string{"auth": encoded(pairs[i+1])}
	}
	return rawAuths(entries)
}

func rawAuths(entries any) map[string][]byte {
	text, _ := json.Marshal(map[string]any{"auths": entries})
	return map[string][]byte{".dockerconfigjson": text}
}

func TestPullSecret(t *testing.T) {
	type entry = map[string]string
	tests := map[string]struct {
		url, kind string
		data      map[string][]byte
		want      string
	}{
		"not from a registry": {url: imageURL, kind: "Opaque"},
		"auth":                {url: "oci://quay.io/org/image:tag", data: auths("other.io", "x:y", "quay.io", "u:p"), want: "u:p"},
		"password with colon": {url: "oci://quay.io/org/image", data: auths("quay.io", "u:p:q"), want: "u:p:q"},
		"fields":              {url: "oci://quay.io/org/image", data: rawAuths(map[string]entry{"quay.io": {"username": "u", "password": "p"}}), want: "u:p"},
		"auth before fields":  {url: "oci://quay.io/org/image", data: rawAuths(map[string]entry{"quay.io": {"username": "x", "password": "y", "auth": encoded("u:p"), "email": "e"}}), want: "u:p"},
		"auth without padding": {
			url: "oci://quay.io/org/image", data: rawAuths(map[string]entry{"quay.io": {"auth": " " + strings.TrimRight(encoded("user:p"), "=") + "\n"}}), want: "user:p",
		},
		"auth padded by docker": {url: "oci://quay.io/org/image", data: auths("quay.io", "u:p\x00\x00"), want: "u:p"},
		"dockercfg":             {url: "oci://quay.io/org/image", kind: configCfg, data: data(".dockercfg", `{"quay.io":{"auth":"`+encoded("u:p")+`"}}`), want: "u:p"},

		"upper case":       {url: "oci://Quay.IO/org/image", data: auths("quay.io", "u:p"), want: "u:p"},
		"key is a URL":     {url: "oci://quay.io/org/image", data: auths("https://quay.io/v2/", "u:p"), want: "u:p"},
		"key ends with /":  {url: "oci://quay.io/org/image", data: auths("quay.io/", "u:p"), want: "u:p"},
		"no repository":    {url: "oci://quay.io", data: auths("quay.io", "u:p"), want: "u:p"},
		"port":             {url: "oci://reg:5000/image", data: auths("reg", "x:y", "reg:5001", "x:y", "reg:5000", "u:p"), want: "u:p"},
		"port of https":    {url: "oci://reg:443/image", data: auths("reg", "u:p"), want: "u:p"},
		"port in the key":  {url: "oci://reg/image", data: auths("https://reg:443", "u:p"), want: "u:p"},
		"IPv6":             {url: "oci://[2001:db8::1]:5000/image", data: auths("[2001:db8::1]:5000", "u:p"), want: "u:p"},
		"user in the URL":  {url: "oci://x:y@quay.io/org/image", data: auths("quay.io", "u:p"), want: "u:p"},
		"Docker Hub":       {url: "oci://docker.io/library/image", data: auths("https://index.docker.io/v1/", "u:p"), want: "u:p"},
		"Docker Hub back":  {url: "oci://index.docker.io/library/image", data: auths("docker.io", "u:p"), want: "u:p"},
		"Docker Hub, API":  {url: "oci://registry-1.docker.io/library/image", data: auths("index.docker.io/v1/", "u:p"), want: "u:p"},
		"repository":       {url: "oci://quay.io/org/image:tag", data: auths("quay.io", "x:y", "quay.io/org/image", "u:p"), want: "u:p"},
		"organisation":     {url: "oci://quay.io/org/image@sha256:ab", data: auths("quay.io/org", "u:p", "quay.io", "x:y", "quay.io/org/image2", "x:y"), want: "u:p"},
		"digest":           {url: "oci://quay.io/org/image@sha256:ab", data: auths("quay.io/org/image", "u:p"), want: "u:p"},
		"other repository": {url: "oci://quay.io/org2/image", data: auths("quay.io/org", "x:y", "quay.io", "u:p"), want: "u:p"},
		"same key twice":   {url: "oci://quay.io/org/image", data: auths("quay.io", "x:y", "https://quay.io", "u:p"), want: "u:p"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			kind := test.kind
			if kind == "" {
				kind = configJSON
			}
			got, err := PullSecret(test.url, kind, test.data)
			if err != nil {
				t.Fatal(err)
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// The tokens of some registries are long.
func TestPullSecretOfToken(t *testing.T) {
	token := "user:" + strings.Repeat("x", 8<<10)
	if got, err := PullSecret("oci://quay.io/org/image", configJSON, auths("quay.io", token)); err != nil || got != token {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func TestPullSecretErrors(t *testing.T) {
	type entry = map[string]string
	const url = "oci://quay.io/org/image"
	tests := map[string]struct {
		url, kind  string
		data       map[string][]byte
		wantReason string // default ImageAuthParseError
		want       string
	}{
		"other type":         {kind: "Opaque", data: auths("quay.io", "u:s3cret"), wantReason: "ImageAuthFormatUnsupported", want: `type "Opaque" is not supported`},
		"no type":            {kind: "-", data: auths("quay.io", "u:s3cret"), wantReason: "ImageAuthFormatUnsupported", want: "use kubernetes.io/dockerconfigjson or kubernetes.io/dockercfg"},
		"no key":             {data: data("config.json", "s3cret"), want: "key .dockerconfigjson is missing"},
		"no key, dockercfg":  {kind: configCfg, data: auths("quay.io", "u:s3cret"), want: "key .dockercfg is missing"},
		"no JSON":            {data: data(".dockerconfigjson", "s3cret"), want: "no docker configuration"},
		"other JSON":         {data: data(".dockerconfigjson", `{"auths": "s3cret"}`), want: "no docker configuration"},
		"no registries":      {data: data(".dockerconfigjson", `{"s3cret": {}}`), want: `no credentials for the registry "quay.io"`},
		"null":               {data: data(".dockerconfigjson", "null"), want: `no credentials for the registry "quay.io"`},
		"other registry":     {data: auths("s3cret.io", "u:s3cret"), want: `no credentials for the registry "quay.io"`},
		"other port":         {data: auths("quay.io:5000", "u:s3cret"), want: `no credentials for the registry "quay.io"`},
		"beginning of it":    {data: auths("quay", "u:s3cret", "quay.i", "u:s3cret", "", "u:s3cret"), want: `no credentials for the registry "quay.io"`},
		"other organisation": {data: auths("quay.io/or", "u:s3cret", "quay.io/org/image2", "u:s3cret"), want: `no credentials for the registry "quay.io"`},
		"auth not base64":    {data: rawAuths(map[string]entry{"quay.io": {"auth": "s3cret!"}}), want: `auth of registry "quay.io" is not base64`},
		"auth without colon": {data: auths("quay.io", "s3cret"), want: `auth of registry "quay.io" is not user:password`},
		"auth without user":  {data: auths("quay.io", ":s3cret"), want: "no user or no password"},
		"more than 16 KiB":   {data: auths("quay.io", "u:"+strings.Repeat("s3cret", 3<<10)), want: "have 18 KiB, which is more than the 16 KiB that are passed on"},
		"config in Latin-1":  {data: data(".dockerconfigjson", `{"auths":{"quay.io":{"username":"u","password":"s3cr`+"\xe9"+`t"}}}`), want: "key .dockerconfigjson is not text in UTF-8"},
		"old one in Latin-1": {kind: configCfg, data: data(".dockercfg", `{"quay.io":{"username":"u","password":"s3cr`+"\xe9"+`t"}}`), want: "key .dockercfg is not text in UTF-8"},
		"auth in Latin-1":    {data: auths("quay.io", "u:s3cr\xe9t"), want: `the auth of registry "quay.io" is not text in UTF-8`},
		"no password":        {data: rawAuths(map[string]entry{"quay.io": {"username": "s3cret"}}), want: "no user or no password"},
		"identity token":     {data: rawAuths(map[string]entry{"quay.io": {"identitytoken": "s3cret"}}), want: "no user or no password"},
		"user with colon":    {data: rawAuths(map[string]entry{"quay.io": {"username": "a:s3cret", "password": "s3cret"}}), want: "has a colon"},
		"no registry":        {url: "oci:///s3cret", data: auths("quay.io", "u:s3cret"), want: "names no registry"},
		"malformed URL":      {url: "oci://u:s3c%ret@quay.io/x", data: auths("quay.io", "u:s3cret"), want: "names no registry"},
		"user in the URL":    {url: "oci://u:s3cret@other.io/x", data: auths("quay.io", "u:s3cret"), want: `no credentials for the registry "other.io"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			kind, image, reason := test.kind, test.url, test.wantReason
			switch kind {
			case "":
				kind = configJSON
			case "-":
				kind = ""
			}
			if image == "" {
				image = url
			}
			if reason == "" {
				reason = "ImageAuthParseError"
			}
			got, err := PullSecret(image, kind, test.data)
			failure := new(PullSecretError)
			if got != "" || !errors.As(err, &failure) {
				t.Fatalf("got %q, error %v", got, err)
			}
			if failure.Reason != reason {
				t.Errorf("reason is %s, want %s", failure.Reason, reason)
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %q does not contain %q", err, test.want)
			}
			if strings.Contains(err.Error(), "s3c") || strings.Contains(err.Error(), encoded("u:s3cret")) {
				t.Errorf("error tells a secret: %v", err)
			}
		})
	}
}

// FuzzPullSecret: whatever a Secret and a URL hold, nothing panics, credentials
// have both parts, and no error quotes the Secret.
func FuzzPullSecret(f *testing.F) {
	f.Add("oci://quay.io/org/image", `{"auths":{"quay.io":{"auth":"dTpw"}}}`, "u:p", false)
	f.Add("oci://docker.io/image", `{"https://index.docker.io/v1/":{"username":"u","password":"p"}}`, "", true)
	f.Add("oci://[::1]:5000/a", `{"auths":{"":{"auth":1}}}`, "\x00", false)
	f.Add("oci://%zz", `{"auths":null}`, ":", true)
	f.Add("oci://a:b@c/d?e#f", `[`, "a:b:c", false)
	f.Fuzz(func(t *testing.T, imageURL, config, auth string, old bool) {
		const marker = "zq9xjkw7vb"
		kind, key := configJSON, ".dockerconfigjson"
		if old {
			kind, key = configCfg, ".dockercfg"
		}
		generated, _ := json.Marshal(map[string]any{"auths": map[string]any{
			"quay.io": map[string]string{"auth": encoded(marker + auth)}, marker: map[string]string{"username": auth, "password": marker},
		}})
		for _, text := range []string{config, config + marker, strings.ReplaceAll(config, `"auth":"`, `"auth":"`+marker), string(generated)} {
			got, err := PullSecret(imageURL, kind, map[string][]byte{key: []byte(text)})
			if err != nil {
				failure := new(PullSecretError)
				if !errors.As(err, &failure) || got != "" {
					t.Errorf("got %q, error %T", got, err)
				}
				if !strings.Contains(imageURL, marker) && strings.Contains(strings.ToLower(err.Error()), marker) {
					t.Errorf("error quotes the Secret: %v", err)
				}
				continue
			}
			if !utf8.ValidString(got) {
				t.Errorf("Ironic would be told other credentials than %q", got)
			}
			user, password, ok := strings.Cut(got, ":")
			if IsOCI(imageURL) && (!ok || user == "" || password == "") {
				t.Errorf("credentials are %q", got)
			}
		}
	})
}
