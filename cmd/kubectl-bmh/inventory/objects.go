package inventory

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/validation"
)

// SecretSuffix follows the name of a host in the name of its Secret.
const SecretSuffix = "-bmc-secret"

// maxPassword is the largest file that is read as a password, in bytes.
const maxPassword = 4096

// Objects are what is created for a machine.
type Objects struct {
	Entry Entry
	// Secret is nil if the host uses one that exists already.
	Secret *corev1.Secret
	Host   *metal3.BareMetalHost
}

// Credentials are those of machines that have none of their own in the inventory.
type Credentials struct {
	Username, Password string
}

// Prepare makes objects of entries. It checks what can be checked without a server, with the
// server's own rules. Mistakes are returned in the order of their lines, beside the objects of all
// other entries. Names of password files are relative to dir.
func Prepare(entries []Entry, common Credentials, namespace, dir string) (objects []Objects, mistakes []*LineError) {
	seen := map[string]Entry{}
	for _, entry := range entries {
		if entry.Namespace == "" {
			entry.Namespace = namespace
		}
		o, err := prepare(entry, common, dir)
		if err = errors.Join(err, checkUnique(seen, entry)); err != nil {
			mistakes = append(mistakes, &LineError{entry.Line, entry.Name, err})
			continue
		}
		objects = append(objects, o)
	}
	return objects, mistakes
}

// checkUnique refuses a machine that is there twice. Two hosts with one BMC would wait for each
// other for ever.
func checkUnique(seen map[string]Entry, e Entry) error {
	for _, unique := range []struct{ field, namespace, value string }{
		{"name", e.Namespace, e.Name},
		{"address", "", e.Spec.BMC.Address},
		{"bootMACAddress", "", strings.ToLower(e.Spec.BootMACAddress)},
	} {
		if unique.value == "" {
			continue
		}
		key := unique.field + " " + unique.namespace + "/" + unique.value
		if first, found := seen[key]; found {
			return fmt.Errorf("it has the same %s as line %d", unique.field, first.Line)
		}
		seen[key] = e
	}
	return nil
}

func prepare(e Entry, common Credentials, dir string) (Objects, error) {
	o := Objects{Entry: e}
	if e.Name == "" {
		return o, errors.New("it has no name")
	}
	o.Host = &metal3.BareMetalHost{
		TypeMeta:   metav1.TypeMeta{APIVersion: metal3.SchemeGroupVersion.String(), Kind: "BareMetalHost"},
		ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: e.Name, Labels: e.Labels},
		Spec:       e.Spec,
	}
	var errs []error
	if e.Spec.BMC.Address == "" {
		errs = append(errs, errors.New("it has no address of a BMC"))
	}
	if e.Spec.BMC.CredentialsName == "" {
		username, password, err := credentialsOf(e, common, dir)
		errs = append(errs, err)
		o.Host.Spec.BMC.CredentialsName = e.Name + SecretSuffix
		o.Secret = newSecret(e, username, password)
	} else if e.Username != "" || e.Password != "" || e.PasswordFile != "" {
		errs = append(errs, errors.New("credentialsName names a Secret that exists: user name and password contradict it"))
	}
	if err := errors.Join(errs...); err != nil {
		return o, err
	}
	return o, check(o.Host)
}

// check applies the rules of the server.
func check(host *metal3.BareMetalHost) error {
	withDefaults := host.DeepCopy()
	metal3.SetObjectDefaults_BareMetalHost(withDefaults)
	return validation.ValidateBareMetalHost(withDefaults).ToAggregate()
}

func credentialsOf(e Entry, common Credentials, dir string) (username, password string, err error) {
	username, password = e.Username, e.Password
	if e.Password != "" && e.PasswordFile != "" {
		return "", "", errors.New("it has both a password and a passwordFile")
	}
	if e.PasswordFile != "" {
		if password, err = ReadPasswordFile(dir, e.PasswordFile); err != nil {
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
	return username, password, nil
}

// ReadPasswordFile reads a password from a file. The line break at its end is no part of it. The
// errors do not contain what was read.
func ReadPasswordFile(dir, name string) (string, error) {
	if !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	info, err := os.Stat(name)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() && info.Mode()&os.ModeNamedPipe == 0 && info.Mode()&os.ModeCharDevice == 0 {
		return "", fmt.Errorf("%s is no file", name)
	}
	if info.Size() > maxPassword {
		return "", fmt.Errorf("%s has %d bytes, which is too long for a password", name, info.Size())
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	return CleanPassword(string(data), name)
}

// CleanPassword removes the line break at the end of a password, and refuses what cannot be one.
func CleanPassword(password, source string) (string, error) {
	password = strings.TrimSuffix(strings.TrimSuffix(password, "\n"), "\r")
	switch {
	case password == "":
		return "", fmt.Errorf("%s: the password is empty", source)
	case strings.ContainsAny(password, "\n\r\x00"):
		return "", fmt.Errorf("%s has more than one line", source)
	}
	return password, nil
}

func newSecret(e Entry, username, password string) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: e.Namespace, Name: e.Name + SecretSuffix, Labels: map[string]string{metal3.EnvironmentLabel: metal3.EnvironmentLabelValue},
		},
		Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{metal3.SecretUsernameKey: []byte(username), metal3.SecretPasswordKey: []byte(password)},
	}
}
