// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	api "github.com/metal3-io/metal3-apiserver/pkg/apis/ironic/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/bmc"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/client"
)

// The keys of the Secret of an IronicInstance.
const (
	usernameKey = "username"
	passwordKey = "password"
	cloudsKey   = "clouds.yaml"
)

// Problem is why the server cannot use an IronicInstance, for administrators.
type Problem struct {
	// Reason is that of the condition Accepted.
	Reason string
	// Message says what to do.
	Message string
}

func (p *Problem) Error() string { return p.Message }

// connection is all that a client for an IronicInstance is made from.
type connection struct {
	endpoint, cloud string
	ca              []byte
	credentials     map[string][]byte
	// request and read are the time limits.
	request, read time.Duration
}

// connector finds out how the Ironics of IronicInstances are reached, from what these name in the cluster.
type connector struct{ deps Deps }

// connectionOf returns how the Ironic of an IronicInstance is reached. If a Secret cannot be read now, what was read of it before goes
// on to be used.
func (c connector) connectionOf(ctx context.Context, instance *api.IronicInstance, object *ironicObject, former *Member) (connection, error) {
	spec := &instance.Spec
	to := connection{endpoint: spec.Endpoint, cloud: spec.Cloud, ca: spec.CABundle, request: c.deps.Flags.Timeout, read: c.deps.Live.Wait}
	if spec.RequestTimeout != nil {
		to.request = spec.RequestTimeout.Duration
	}
	if spec.ReadTimeout != nil {
		to.read = spec.ReadTimeout.Duration
	}
	namespace, credentials := c.deps.Namespace, spec.CredentialsName
	if object != nil {
		to.endpoint, namespace, credentials = object.endpoint(), object.Namespace, object.Spec.APICredentialsName
		if credentials == "" {
			return to, &Problem{api.IronicNotReadyReason, object.describe() + " does not name the Secret with its credentials yet, which the operator creates"}
		}
	}
	if credentials != "" {
		secret, err := c.secretOf(ctx, namespace, credentials)
		switch {
		case err != nil && (former == nil || apierrors.IsNotFound(err)):
			return to, c.secretProblem(namespace, credentials, err)
		case err != nil:
			to.credentials = former.connection.credentials
		case object != nil && secret.Labels[operatorLabel] != "true":
			return to, &Problem{api.SecretInvalidReason, fmt.Sprintf("Secret %q in namespace %q, which %s names, lacks the label %s=true, without which the operator does not use it either",
				credentials, namespace, object.describe(), operatorLabel)}
		default:
			to.credentials = secret.Data
		}
	}
	if object != nil && object.Spec.TLS.CertificateName != "" && len(spec.CABundle) == 0 {
		secret, err := c.secretOf(ctx, namespace, object.Spec.TLS.CertificateName)
		switch {
		case err != nil && (former == nil || apierrors.IsNotFound(err)):
			return to, c.secretProblem(namespace, object.Spec.TLS.CertificateName, err)
		case err != nil:
			to.ca = former.connection.ca
		default:
			to.ca = authoritiesIn(secret)
		}
	}
	return to, nil
}

func (c connector) secretOf(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	ctx, cancel := context.WithTimeout(ctx, secretTimeout)
	defer cancel()
	return c.deps.Secret(ctx, namespace, name)
}

func (c connector) secretProblem(namespace, name string, err error) *Problem {
	where := "the namespace of the server"
	if namespace != c.deps.Namespace {
		where = fmt.Sprintf("namespace %q", namespace)
	}
	return &Problem{api.SecretNotFoundReason, fmt.Sprintf("Secret %q in %s cannot be read: %v", name, where, err)}
}

func (c connection) equal(other connection) bool {
	return c.endpoint == other.endpoint && c.cloud == other.cloud && c.request == other.request && c.read == other.read && bytes.Equal(c.ca, other.ca) && maps.EqualFunc(c.credentials, other.credentials, bytes.Equal)
}

// dial returns a client, which does not use the network yet. What is not said is as in the server's flags.
func (c connection) dial(name string, flags client.Config) (*client.Client, error) {
	config := client.Config{
		Name: name, Endpoint: c.endpoint, Cloud: c.cloud, CAData: c.ca,
		Transport: flags.Transport, Timeout: c.request, ReadConnections: flags.ReadConnections, WriteConnections: flags.WriteConnections, Clock: flags.Clock,
	}
	switch {
	case c.cloud != "":
		if config.CloudsYAML = bytes.TrimSpace(c.credentials[cloudsKey]); len(config.CloudsYAML) == 0 {
			// Without it, the client would look for the server's own clouds.yaml, and send that user's token to this endpoint.
			return nil, &Problem{api.SecretInvalidReason, "the Secret has no " + cloudsKey}
		}
	case c.credentials != nil:
		config.Username, config.Password = string(bytes.TrimSpace(c.credentials[usernameKey])), string(bytes.TrimSpace(c.credentials[passwordKey]))
		if config.Username == "" || config.Password == "" {
			return nil, &Problem{api.SecretInvalidReason, "the Secret has no " + usernameKey + ", or no " + passwordKey}
		}
		// The password may have any bytes: Ironic compares them as they are.
		if wrong := bmc.Unsendable(config.Username); wrong != "" {
			return nil, &Problem{api.SecretInvalidReason, fmt.Sprintf("the %s in the Secret %s: it has to be one line of text in UTF-8, without a byte order mark", usernameKey, wrong)}
		}
	}
	ironic, err := client.New(config)
	switch {
	case err != nil && c.cloud != "":
		return nil, &Problem{api.SecretInvalidReason, err.Error()}
	case err != nil:
		return nil, &Problem{api.UnusableReason, err.Error()}
	}
	return ironic, nil
}
