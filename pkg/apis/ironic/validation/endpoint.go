// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"net"
	"net/url"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	api "github.com/metal3-io/metal3-apiserver/pkg/apis/ironic/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/weburl"
)

// CanonicalEndpoint returns the endpoint of an Ironic in the one spelling that all spellings of it have in
// common, by which two can be compared. It is empty for what is not a valid endpoint.
func CanonicalEndpoint(endpoint string) string {
	u, err := weburl.Parse(endpoint, weburl.Web)
	if err != nil {
		return ""
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	canonical := url.URL{
		Scheme: u.Scheme, Host: net.JoinHostPort(strings.TrimSuffix(strings.ToLower(u.Hostname()), "."), port),
		Path: strings.TrimRight(strings.TrimSuffix(strings.TrimRight(u.Path, "/"), "/v1"), "/"),
	}
	return canonical.String()
}

func validateEndpoint(spec *api.IronicInstanceSpec, path *field.Path) field.ErrorList {
	endpoint := path.Child("endpoint")
	if spec.IronicRef != nil {
		return validateReference(spec, path)
	}
	if spec.Endpoint == "" {
		if spec.Cloud == "" {
			return field.ErrorList{field.Required(endpoint, "must be the URL of Ironic, unless spec.cloud or spec.ironicRef is set")}
		}
		return nil
	}
	if strings.ContainsAny(spec.Endpoint, "?#") {
		return field.ErrorList{field.Invalid(endpoint, field.OmitValueType{}, "must not have a query or a fragment")}
	}
	return validateURL(spec.Endpoint, endpoint)
}

// validateReference validates the reference to an Ironic object, and that nothing contradicts it.
func validateReference(spec *api.IronicInstanceSpec, path *field.Path) field.ErrorList {
	var all field.ErrorList
	for _, other := range []struct{ name, value string }{{"endpoint", spec.Endpoint}, {"cloud", spec.Cloud}, {"credentialsName", spec.CredentialsName}} {
		if other.value != "" {
			all = append(all, field.Forbidden(path.Child(other.name), "the Ironic object that spec.ironicRef names says where Ironic is and how to log in; set one of the two"))
		}
	}
	ref := path.Child("ironicRef")
	if spec.IronicRef.Name == "" {
		all = append(all, field.Required(ref.Child("name"), "must be the name of an Ironic object"))
	} else {
		// Its Service has the same name.
		for _, problem := range apivalidation.NameIsDNS1035Label(spec.IronicRef.Name, false) {
			all = append(all, field.Invalid(ref.Child("name"), spec.IronicRef.Name, problem))
		}
	}
	if namespace := spec.IronicRef.Namespace; namespace != "" {
		for _, problem := range apivalidation.ValidateNamespaceName(namespace, false) {
			all = append(all, field.Invalid(ref.Child("namespace"), namespace, problem))
		}
	}
	return all
}

// validateURL checks a URL, which may be empty. Its errors do not repeat the URL, which may have a password
// where none should be.
func validateURL(text string, path *field.Path) field.ErrorList {
	if text == "" {
		return nil
	}
	if len(text) > maxURL {
		return field.ErrorList{field.TooLong(path, "", maxURL)}
	}
	parsed, err := weburl.Parse(text, weburl.Web)
	switch {
	case err != nil:
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, err.Error()+", as in https://ironic.example.com:6385")}
	case parsed.User != nil:
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, "must not contain a user name or password, because everybody who can read this object could read them")}
	}
	return nil
}
