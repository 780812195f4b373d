// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
	goyaml "sigs.k8s.io/yaml/goyaml.v2"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// ConfigRole is what a Secret is for in the config drive.
type ConfigRole string

// The roles.
const (
	UserData    ConfigRole = "userData"
	NetworkData ConfigRole = "networkData"
	MetaData    ConfigRole = "metaData"
	// PreprovisioningNetworkData is in place of NetworkData where there is none.
	PreprovisioningNetworkData ConfigRole = "preprovisioningNetworkData"
)

// ConfigSources are the data of the Secrets that ConfigSecrets listed.
type ConfigSources struct {
	UserData, NetworkData, MetaData, PreprovisioningNetworkData map[string][]byte
}

// ConfigError says what is wrong with a Secret of the config drive. Its text names
// the Secret and the key, and tells nothing of what is in them.
type ConfigError struct {
	Role    ConfigRole
	message string
}

func (e *ConfigError) Error() string { return e.message }

// ConfigSecrets returns the names of the Secrets that the host's config drive is
// made from, all of them in the namespace of the host.
func ConfigSecrets(host *metal3.BareMetalHost) map[ConfigRole]string {
	spec := &host.Spec
	if wanted(spec).isLiveISO() {
		return nil
	}
	names := map[ConfigRole]string{}
	add := func(role ConfigRole, ref *corev1.SecretReference) {
		if ref != nil && ref.Name != "" {
			names[role] = ref.Name
		}
	}
	add(UserData, spec.UserData)
	add(MetaData, spec.MetaData)
	add(NetworkData, spec.NetworkData)
	if names[NetworkData] == "" && spec.PreprovisioningNetworkDataName != "" { // generators write networkData: {} for none
		names[PreprovisioningNetworkData] = spec.PreprovisioningNetworkDataName
	}
	return names
}

// ConfigDrive returns the config drive that the system on the host is to find, as
// the object that Ironic takes; nil for a live ISO, which would need hardware that
// can show it a second disk. Errors are ConfigErrors.
func ConfigDrive(host *metal3.BareMetalHost, sources ConfigSources) (map[string]any, error) {
	if wanted(&host.Spec).isLiveISO() {
		return nil, nil
	}
	names := ConfigSecrets(host)
	drive := map[string]any{}

	user := configSecret{host.Namespace, names[UserData], UserData, sources.UserData}
	text, _, err := user.text("userData", true)
	if err != nil {
		return nil, err
	}
	if text != "" {
		drive["user_data"] = text
	}

	meta := configSecret{host.Namespace, names[MetaData], MetaData, sources.MetaData}
	given, err := meta.limited("metaData", true, maxConfigData, configDriveTakes)
	if err != nil {
		return nil, err
	}
	drive["meta_data"] = metaData(host, given)

	network := configSecret{host.Namespace, names[NetworkData], NetworkData, sources.NetworkData}
	if name, ok := names[PreprovisioningNetworkData]; ok {
		network = configSecret{host.Namespace, name, PreprovisioningNetworkData, sources.PreprovisioningNetworkData}
	}
	given, err = network.limited("networkData", false, maxConfigData, configDriveTakes)
	if err != nil {
		return nil, err
	}
	if given != nil {
		drive["network_data"] = given
	}
	return drive, nil
}

// metaData is what cloud-init and others go by, unless the user says otherwise.
func metaData(host *metal3.BareMetalHost, given map[string]any) map[string]any {
	meta := map[string]any{
		"uuid":             string(host.UID),
		"metal3-namespace": host.Namespace,
		"metal3-name":      host.Name,
		"local-hostname":   host.Name,
		"local_hostname":   host.Name,
		"name":             host.Name,
	}
	maps.Copy(meta, given)
	return meta
}

// configSecret is a Secret and what it is for. Without a name, it is none.
type configSecret struct {
	namespace, name string
	role            ConfigRole
	data            map[string][]byte
}

func (s configSecret) fail(format string, args ...any) error {
	return &ConfigError{Role: s.role, message: fmt.Sprintf("Secret %s/%s: ", s.namespace, s.name) + fmt.Sprintf(format, args...)}
}

// valueKey is the key that is looked for second.
const valueKey = "value"

// text returns what the Secret has, in key or in "value", and in which of the two.
// It is an error if it has neither, and has to.
func (s configSecret) text(key string, required bool) (text, foundIn string, err error) {
	if s.name == "" {
		return "", "", nil
	}
	data, ok := s.data[key]
	foundIn = key
	if !ok {
		data, ok = s.data[valueKey]
		foundIn = valueKey
	}
	switch {
	case !ok && required:
		return "", "", s.fail("it has neither a key %s nor a key %s: add one of them", key, valueKey)
	case !utf8.Valid(data):
		// Ironic takes a config drive as JSON, where other bytes would become U+FFFD.
		return "", "", s.fail("key %s is not UTF-8 text, which Ironic cannot pass on (compressed, perhaps)", foundIn)
	}
	return string(data), foundIn, nil
}

// values returns the map, in JSON or YAML, that the Secret has; nil if it is empty.
func (s configSecret) values(key string, required bool) (map[string]any, error) {
	text, key, err := s.text(key, required)
	if err != nil || text == "" {
		return nil, err
	}
	if values, ok := jsonMap(text); ok {
		return values, nil
	}
	if expandsBeyond(text, maxExpanded) {
		return nil, s.fail("key %s has YAML aliases that expand to more than %d MiB", key, maxExpanded>>20)
	}
	var values map[string]any
	if err := yaml.Unmarshal([]byte(text), &values, useNumber); err != nil {
		return nil, s.fail("key %s is not a YAML or JSON map%s", key, lineOf(err))
	}
	return values, nil
}

// limited is values for at most so many bytes of JSON. why says whose limit that is.
func (s configSecret) limited(key string, required bool, most int, why string) (map[string]any, error) {
	values, err := s.values(key, required)
	if err != nil {
		return nil, err
	}
	encoded, err := json.Marshal(values)
	if err != nil {
		return nil, s.fail("its %s cannot be written as JSON", key)
	}
	if len(encoded) > most {
		return nil, s.fail("its %s has %d KiB as JSON, which is more than the %d KiB %s", key, len(encoded)>>10, most>>10, why)
	}
	return values, nil
}

// jsonMap returns the map, or nil for null, that a JSON text holds, and whether it
// holds one. JSON is not left to the YAML parser, which refuses keys of more than
// 1,024 bytes, surrogate pairs (\ud83d\ude00) and some tabs, and rounds large numbers.
func jsonMap(text string) (values map[string]any, ok bool) {
	// Without UseNumber it is an error when a number is too large for a float64. It
	// would be infinite to Ironic, whose next answer would then not be JSON.
	if json.Unmarshal([]byte(text), &values) != nil {
		return nil, false
	}
	values = nil
	err := useNumber(json.NewDecoder(strings.NewReader(text))).Decode(&values)
	return values, err == nil
}

const (
	// maxConfigData bounds the network data and the meta data of a config drive, each as JSON. The network data of 500 network
	// interfaces have half of it.
	maxConfigData = 256 << 10
	// configDriveTakes says what is to be done beyond that.
	configDriveTakes = "that a config drive takes: large texts belong into the userData"
	// maxExpanded is how long a YAML text may be with its aliases written out. A Secret
	// holds 1 MiB; a long string that is named a hundred thousand times would be more
	// than there is memory, and the YAML parser counts the names alone.
	maxExpanded = 1 << 20
)

// expandsBeyond reports whether a text with its aliases written out is longer than most.
// Of one that is no YAML the parser says more.
func expandsBeyond(text string, most int) bool {
	if !strings.Contains(text, "*") {
		return false // it has none
	}
	var document any
	if goyaml.Unmarshal([]byte(text), &document) != nil {
		return false
	}
	return remaining(document, most) < 0
}

// remaining is what is left of a number of bytes after a value was written; negative
// when it does not suffice. Until then, the parser has the value in memory once.
func remaining(value any, left int) int {
	left--
	switch value := value.(type) {
	case string:
		return left - len(value)
	case []any:
		for _, item := range value {
			if left = remaining(item, left); left < 0 {
				return left
			}
		}
	case map[any]any:
		for key, item := range value {
			if left = remaining(item, remaining(key, left)); left < 0 {
				return left
			}
		}
	}
	return left
}

// useNumber keeps large numbers as they are written.
func useNumber(decoder *json.Decoder) *json.Decoder {
	decoder.UseNumber()
	return decoder
}

// yamlLine is how an error of the YAML parser begins. What follows may quote the text.
var yamlLine = regexp.MustCompile(`^error converting YAML to JSON: yaml: (line [0-9]{1,9}):`)

// lineOf is what may be told of a parser's error: the line.
func lineOf(err error) string {
	found := yamlLine.FindStringSubmatch(err.Error())
	if found == nil {
		return ""
	}
	return " (see " + found[1] + ")"
}
