// SPDX-License-Identifier: Apache-2.0

package networkswitch

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
)

// The keys of the Secret with the credentials of a switch.
const (
	usernameKey      = "username"
	passwordKey      = "password"
	privateKeyKey    = "ssh-privatekey"
	adminPasswordKey = "admin-password"
)

// configKey is the key of the Secret with the configuration. Ironic's networking service reads it as a
// file.
const configKey = "switch-configs.conf"

// header is what the Bare Metal Operator begins the file with.
const header = "# This file is managed by the Baremetal Operator\n\n"

// credentials are those in the Secret of a switch. There is a private key or a password.
type credentials struct {
	username, password, adminPassword string
	privateKey                        []byte
}

// credentialsIn returns the credentials in the Secret with the given name, or what it lacks.
func credentialsIn(name string, data map[string][]byte) (credentials, error) {
	c := credentials{
		username: string(data[usernameKey]), password: string(data[passwordKey]), adminPassword: string(data[adminPasswordKey]),
		privateKey: data[privateKeyKey],
	}
	switch {
	case c.username == "":
		return c, fmt.Errorf("credentials secret %s missing '%s' key", name, usernameKey)
	case c.password == "" && len(c.privateKey) == 0:
		return c, fmt.Errorf("credentials secret %s missing '%s' or '%s' key", name, passwordKey, privateKeyKey)
	}
	for _, key := range []string{usernameKey, passwordKey, adminPasswordKey} {
		if wrong := unwritable(string(data[key])); wrong != "" {
			return c, fmt.Errorf("credentials secret %s: key '%s' %s, which cannot be written to the configuration", name, key, wrong)
		}
	}
	// A key has lines. The service reads it in PEM, as text in UTF-8.
	if wrong := bmc.Unsendable(strings.NewReplacer("\r", "", "\n", "").Replace(string(c.privateKey))); wrong != "" {
		return c, fmt.Errorf("credentials secret %s: key '%s' %s, which cannot be read as a private key", name, privateKeyKey, wrong)
	}
	return c, nil
}

// checkSpec returns why a switch cannot be written to the configuration.
func checkSpec(spec *metal3.BareMetalSwitchSpec) error {
	for _, field := range []struct{ name, value string }{
		{"address", spec.Address}, {"macAddress", spec.MACAddress}, {"deviceType", spec.DeviceType}, {"driver", string(spec.Driver)},
	} {
		if wrong := unwritable(field.value); wrong != "" {
			return fmt.Errorf("spec.%s %s, which cannot be written to the configuration", field.name, wrong)
		}
	}
	return nil
}

// unwritable returns what of a value Ironic's networking service would not read as it is, or an empty text. A line
// break would begin another setting, and a byte order mark would be a part of the value. The service copies the values
// by way of Python's configparser, which fails for the whole file where a "%" is not followed by another one. It leaves
// both, so that it cannot be escaped. oslo.config takes off spaces and quotes, and fails for the whole file where
// something is not UTF-8.
func unwritable(value string) string {
	if wrong := bmc.Unsendable(value); wrong != "" {
		return wrong
	}
	isSpace := func(r rune) bool { return unicode.IsSpace(r) || '\x1c' <= r && r <= '\x1f' } // as for Python
	switch {
	case strings.Contains(strings.ReplaceAll(value, "%%", ""), "%"):
		return "has a '%'"
	case strings.TrimFunc(value, isSpace) != value:
		return "begins or ends with a space"
	case value != "" && strings.Contains(`"'`, value[:1]) && value[0] == value[len(value)-1]:
		return "is in quotes"
	}
	return ""
}

// section returns the part of the configuration about one switch. A private key is in a file of the
// other Secret, which Ironic's networking service finds in the directory keyDir.
func section(device *metal3.BareMetalSwitch, c credentials, keyDir string) string {
	spec := &device.Spec
	var text strings.Builder
	set := func(key, value string) { _, _ = fmt.Fprintf(&text, "%s=%s\n", key, value) }
	_, _ = fmt.Fprintf(&text, "[switch:%s]\n", device.Name)
	set("address", spec.Address)
	set("mac_address", spec.MACAddress)
	if spec.Port != nil {
		set("port", fmt.Sprint(*spec.Port))
	}
	driver := spec.Driver
	if driver == "" {
		driver = metal3.GenericSwitch
	}
	set("driver_type", string(driver))
	set("device_type", spec.DeviceType)
	if spec.DisableCertificateVerification {
		set("insecure", "true")
	}
	set("username", c.username)
	if len(c.privateKey) > 0 {
		set("key_file", path.Join(keyDir, keyFile(device)))
	} else {
		set("password", c.password)
	}
	if c.adminPassword != "" {
		set("enable_secret", c.adminPassword)
	}
	text.WriteByte('\n')
	return text.String()
}

// keyFile is the key of the Secret with the private keys that holds the key of a switch.
func keyFile(device *metal3.BareMetalSwitch) string {
	return strings.ReplaceAll(device.Spec.MACAddress, ":", "-") + ".key"
}

// keyFilePattern is what keyFile returns for any MAC address.
var keyFilePattern = regexp.MustCompile(`^[0-9a-fA-F]{2}(-[0-9a-fA-F]{2}){5}\.key$`)

// hasKeyFiles reports whether a Secret has nothing but private keys of switches.
func hasKeyFiles(is map[string][]byte) bool {
	for key := range is {
		if !keyFilePattern.MatchString(key) {
			return false
		}
	}
	return true
}

// hasConfig reports whether a Secret has a configuration of this server's, or of the Bare Metal Operator's.
func hasConfig(is map[string][]byte) bool { return bytes.HasPrefix(is[configKey], []byte(header)) }

// credentialsSecret returns the name of the Secret with the credentials of a switch. It must be in the
// namespace of the switch: otherwise, whoever may create switches in one namespace could have the
// Secrets of others written to where they can read them.
func credentialsSecret(device *metal3.BareMetalSwitch) (string, error) {
	ref := device.Spec.Credentials
	switch {
	case ref == nil || ref.Name == "":
		return "", fmt.Errorf("credentials secret reference is not set")
	case ref.Namespace != "" && ref.Namespace != device.Namespace:
		return "", fmt.Errorf("credentials secret %s/%s is in another namespace, it must be in that of the switch", ref.Namespace, ref.Name)
	}
	return ref.Name, nil
}

// namesCredentials reports whether a Secret has the keys of credentials for a switch.
func namesCredentials(secret *corev1.Secret) bool {
	_, err := credentialsIn(secret.Name, secret.Data)
	return err == nil
}
