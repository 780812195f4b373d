// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
)

// The reasons of a PullSecretError, which are the reasons of the events about it.
const (
	// ImageAuthFormatUnsupported is a Secret of a type that holds no registry
	// credentials.
	ImageAuthFormatUnsupported = "ImageAuthFormatUnsupported"
	// ImageAuthParseError is a Secret that cannot be parsed, or that has nothing for
	// the registry of the image.
	ImageAuthParseError = "ImageAuthParseError"
)

// PullSecretError says why a Secret is of no use to pull an image. Its text tells
// nothing of what is in the Secret.
type PullSecretError struct {
	// Reason is ImageAuthFormatUnsupported or ImageAuthParseError.
	Reason  string
	message string
}

func (e *PullSecretError) Error() string { return e.message }

func unparsable(format string, args ...any) error {
	return &PullSecretError{Reason: ImageAuthParseError, message: fmt.Sprintf(format, args...)}
}

// registryAuth is the entry of one registry in a docker configuration.
type registryAuth struct {
	Auth     string `json:"auth"`
	Username string `json:"username"`
	Password string `json:"password"`
}

// PullSecret returns the credentials for the registry of an image as Ironic takes
// them in instance_info/image_pull_secret, user:password, from a Secret of type
// kubernetes.io/dockerconfigjson or kubernetes.io/dockercfg. It returns nothing
// for an image that comes from no OCI registry. Errors are PullSecretErrors.
func PullSecret(imageURL, secretType string, data map[string][]byte) (string, error) {
	if !IsOCI(imageURL) {
		return "", nil
	}
	auths, err := registryAuths(corev1.SecretType(secretType), data)
	if err != nil {
		return "", err
	}
	// Parsed, so that a user and password in the URL are in no message.
	parsed, err := url.Parse(imageURL)
	if err != nil || parsed.Host == "" {
		return "", unparsable("the URL of the image names no registry: use oci://REGISTRY/REPOSITORY:TAG")
	}
	image := normalizeRegistry(parsed.Host + parsed.Path)
	var best string
	var auth *registryAuth
	for _, key := range slices.Sorted(maps.Keys(auths)) {
		// Of several entries the most specific one counts, as with the kubelet.
		if entry := normalizeRegistry(key); covers(entry, image) && len(entry) > len(best) {
			found := auths[key]
			best, auth = entry, &found
		}
	}
	if auth == nil {
		return "", unparsable("no credentials for the registry %q of the image", parsed.Host)
	}
	return auth.credentials(parsed.Host)
}

// covers reports whether the entry of a registry, or of repositories in it, is for
// an image.
func covers(entry, image string) bool {
	rest, ok := strings.CutPrefix(image, entry)
	switch {
	case !ok:
		return false
	case rest == "", rest[0] == '/':
		return true
	}
	// A tag or digest behind the repository; behind the registry it is a port.
	return strings.Contains(entry, "/") && (rest[0] == ':' || rest[0] == '@')
}

// registryAuths returns the registries that a Secret has credentials for. The
// errors of the JSON parser are kept back: they may quote what they read.
func registryAuths(secretType corev1.SecretType, data map[string][]byte) (map[string]registryAuth, error) {
	switch secretType {
	case corev1.SecretTypeDockerConfigJson:
		var config struct {
			Auths map[string]registryAuth `json:"auths"`
		}
		if err := readConfig(data, corev1.DockerConfigJsonKey, &config); err != nil {
			return nil, err
		}
		return config.Auths, nil
	case corev1.SecretTypeDockercfg:
		var auths map[string]registryAuth
		if err := readConfig(data, corev1.DockerConfigKey, &auths); err != nil {
			return nil, err
		}
		return auths, nil
	}
	return nil, &PullSecretError{Reason: ImageAuthFormatUnsupported, message: fmt.Sprintf(
		"type %q is not supported for registry credentials: use %s or %s", secretType, corev1.SecretTypeDockerConfigJson, corev1.SecretTypeDockercfg)}
}

// readConfig reads a docker configuration from a key of a Secret. The parser takes bytes that are not UTF-8, and makes
// U+FFFD of them.
func readConfig(data map[string][]byte, key string, config any) error {
	switch {
	case !utf8.Valid(data[key]):
		return unparsable("key %s is not text in UTF-8", key)
	case json.Unmarshal(data[key], config) != nil:
		return unparsable("key %s is missing or no docker configuration in JSON", key)
	}
	return nil
}

// maxCredentials bounds the credentials for a registry, in bytes. Ironic keeps them with the node, and they are looked for in all that it says
// when it is sent them. The tokens of registries have up to 4 KiB.
const maxCredentials = 16 << 10

// credentials decodes an entry; as with docker, auth goes before the two fields.
func (a registryAuth) credentials(registry string) (string, error) {
	username, password := a.Username, a.Password
	if a.Auth != "" {
		encoded := strings.TrimRight(strings.TrimSpace(a.Auth), "=") // some tools leave the padding out
		decoded, err := base64.RawStdEncoding.DecodeString(encoded)
		if err != nil {
			return "", unparsable("the auth of registry %q is not base64", registry)
		}
		var ok bool
		if username, password, ok = strings.Cut(string(decoded), ":"); !ok {
			return "", unparsable("the auth of registry %q is not user:password in base64", registry)
		}
		password = strings.TrimRight(password, "\x00") // docker pads old ones with it
	}
	switch {
	case username == "" || password == "":
		return "", unparsable("the entry of registry %q has no user or no password", registry)
	case len(username)+len(password) > maxCredentials:
		return "", unparsable("the user and password of registry %q have %d KiB, which is more than the %d KiB that are passed on", registry, (len(username)+len(password))>>10, maxCredentials>>10)
	case !utf8.ValidString(username), !utf8.ValidString(password): // in JSON, Ironic would be told another one
		return "", unparsable("the auth of registry %q is not text in UTF-8", registry)
	case strings.Contains(username, ":"):
		return "", unparsable("the user of registry %q has a colon, where Ironic takes the password to begin", registry)
	}
	return username + ":" + password, nil
}

// dockerHub is what all the names of Docker's own registry stand for.
const dockerHub = "docker.io"

// normalizeRegistry brings the keys of docker configurations, which may be URLs,
// and images into one form: registry[:port][/path].
func normalizeRegistry(name string) string {
	name = strings.TrimPrefix(strings.TrimPrefix(name, "https://"), "http://")
	registry, path, _ := strings.Cut(name, "/")
	registry = strings.TrimSuffix(strings.ToLower(registry), ":443") // what https is anyway
	switch registry {
	case "index.docker.io", "registry-1.docker.io":
		registry = dockerHub
	}
	path = strings.Trim(path, "/")
	switch path {
	case "", "v1", "v2": // the API of the registry, not a repository
		return registry
	}
	return registry + "/" + path
}
