// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/validation"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
)

// secretSuffix follows the name of a host in the name of its Secret.
const secretSuffix = "-bmc-secret"

// Objects are what is created for a machine.
type Objects struct {
	Entry Entry
	// Secrets are those that the host uses and that do not exist already. One that several hosts use is only with the first.
	Secrets []*corev1.Secret
	Host    *metal3.BareMetalHost
}

// Credentials are those of machines that have none of their own in the inventory.
type Credentials struct {
	Username, Password string
}

// PasswordReader returns the password that is in a file.
type PasswordReader func(fileName string) (string, error)

// Prepare makes objects of entries. It checks what can be checked without a server, with the
// server's own rules. Mistakes are returned in the order of their lines, beside the objects of all
// other entries.
func Prepare(entries []Entry, common Credentials, namespace string, passwords PasswordReader) (objects []Objects, mistakes []*LineError) {
	seen := uniqueness{}
	given := map[*corev1.Secret]bool{}
	for _, entry := range entries {
		entry.Namespace = cmp.Or(entry.Namespace, namespace)
		o, err := prepare(entry, common, passwords)
		if err = join(err, seen.check(&entry)); err != nil {
			mistakes = append(mistakes, &LineError{Line: entry.Line, Name: entry.Name, Err: err})
			continue
		}
		o.Secrets = slices.DeleteFunc(o.Secrets, func(secret *corev1.Secret) bool {
			isGiven := given[secret]
			given[secret] = true
			return isGiven
		})
		objects = append(objects, o)
	}
	return objects, mistakes
}

func prepare(e Entry, common Credentials, passwords PasswordReader) (Objects, error) {
	o := Objects{Entry: e, Secrets: slices.Clone(e.Secrets)}
	if e.Name == "" {
		return o, errors.New("it has no name")
	}
	o.Host = &metal3.BareMetalHost{
		TypeMeta:   metav1.TypeMeta{APIVersion: metal3.SchemeGroupVersion.String(), Kind: "BareMetalHost"},
		ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: e.Name, Labels: e.Labels, Annotations: e.Annotations},
		Spec:       e.Spec,
	}
	if e.hasNoBMC() {
		return o, check(e, o.Host)
	}
	var errs []error
	if e.Spec.BMC.Address == "" {
		errs = append(errs, errors.New("it has no address of a BMC"))
	}
	if e.Spec.BMC.CredentialsName == "" {
		username, password, err := credentialsOf(e, common, passwords)
		errs = append(errs, err)
		o.Host.Spec.BMC.CredentialsName = e.Name + secretSuffix
		o.Secrets = append(o.Secrets, newSecret(e, username, password))
	} else if e.Username != "" || e.Password != "" || e.PasswordFile != "" {
		errs = append(errs, errors.New("credentialsName names a Secret that exists: user name and password contradict it"))
	}
	if mac := e.Spec.BootMACAddress; mac != "" {
		var err error
		o.Host.Spec.BootMACAddress, err = cleanMAC(mac)
		errs = append(errs, within("bootMACAddress", err))
	}
	if err := join(errs...); err != nil {
		return o, err
	}
	return o, check(e, o.Host)
}

// check applies the rules of the server.
func check(e Entry, host *metal3.BareMetalHost) error {
	withDefaults := host.DeepCopy()
	metal3.SetObjectDefaults_BareMetalHost(withDefaults)
	var errs []error
	for _, err := range validation.ValidateBareMetalHost(withDefaults) {
		if e.inList() {
			leaveOutValue(err, host.Spec.BMC.Address)
		}
		errs = append(errs, err)
	}
	return join(errs...)
}

// leaveOutValue has an error not repeat the value, as errNoBool does not. An address is known by its scheme.
func leaveOutValue(err *field.Error, address string) {
	err.BadValue = field.OmitValueType{}
	if err.Field == "spec.bmc.address" && !strings.Contains(address, "://") {
		err.Detail = "has no scheme, such as redfish://, and is none of IPMI: an IP address, or a DNS name without underscores, perhaps with a port"
	}
}

func credentialsOf(e Entry, common Credentials, passwords PasswordReader) (username, password string, err error) {
	username, password = e.Username, e.Password
	if e.Password != "" && e.PasswordFile != "" {
		return "", "", errors.New("it has both a password and a passwordFile")
	}
	if e.PasswordFile != "" {
		password, err = passwords(e.PasswordFile)
		if noFile := (*fs.PathError)(nil); e.inList() && errors.As(err, &noFile) {
			err = within("passwordFile", noFile.Err) // without the name, which may be the password
		}
		if err != nil {
			return "", "", err
		}
	}
	if username == "" {
		username = common.Username
	}
	if password == "" {
		password = common.Password
	}
	switch {
	case username == "":
		return "", "", errors.New("it has no user name")
	case password == "":
		return "", "", errors.New("it has no password")
	}
	for _, is := range []struct{ name, value string }{{"user name", username}, {"password", password}} {
		if wrong := bmc.Unsendable(is.value); wrong != "" {
			return "", "", fmt.Errorf("its %s %s", is.name, wrong)
		}
	}
	return username, password, nil
}

func newSecret(e Entry, username, password string) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: e.Namespace, Name: e.Name + secretSuffix, Labels: map[string]string{metal3.EnvironmentLabel: metal3.EnvironmentLabelValue},
		},
		Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{metal3.SecretUsernameKey: []byte(username), metal3.SecretPasswordKey: []byte(password)},
	}
}
