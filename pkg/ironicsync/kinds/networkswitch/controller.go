// SPDX-License-Identifier: Apache-2.0

package networkswitch

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/kinds"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/lifecycle"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/secrets"
)

// Settings say where the configuration of Ironic's networking service is written.
type Settings struct {
	// Enabled is set if switches are configured.
	Enabled bool
	// ConfigsSecret and CredentialsSecret are the names of the Secrets, in each namespace with switches,
	// that receive the configuration and the private keys.
	ConfigsSecret, CredentialsSecret string
	// CredentialsPath is the directory at which CredentialsSecret is mounted into the networking
	// service.
	CredentialsPath string
}

// Secrets reads and writes Secrets.
type Secrets interface {
	// Own reads a Secret. If isCredentials, it gets the label of the Secrets of hosts and the owner, so
	// that it is deleted with it.
	Own(ctx context.Context, namespace, name string, owner metav1.OwnerReference, isCredentials func(*corev1.Secret) bool) (map[string][]byte, error)
	// ReplaceData writes all data of an existing Secret, if they differ, unless mayReplace, which can be nil, returns false for those
	// that are there.
	ReplaceData(ctx context.Context, namespace, name string, data map[string][]byte, mayReplace func(is map[string][]byte) bool) error
}

// Switches are the recorded BareMetalSwitches.
type Switches interface {
	kinds.Objects
	UpdateStatus(ctx context.Context, device *metal3.BareMetalSwitch) (*metal3.BareMetalSwitch, error)
}

// Deps are what a Controller works with.
type Deps struct {
	Switches Switches
	Secrets  Secrets
	// Fence has the term of leadership in which the controller runs.
	Fence    ironic.Fence
	Settings Settings
	// Namespaces are those that are managed; none means all.
	Namespaces []string
}

// Controller configures the switches of each namespace.
type Controller struct {
	Deps
	*kinds.Controller[*metal3.BareMetalSwitch]
}

// The condition of switches, and its reasons. CredentialError and Reconciled are those of the Bare Metal
// Operator.
const (
	ValidCondition           = "Valid"
	ReconciledReason         = "Reconciled"
	CredentialErrorReason    = "CredentialError"
	ConfigurationErrorReason = "ConfigurationError"
	SecretErrorReason        = "SecretError"
)

const reconciledMessage = "Switch configuration has been successfully reconciled into the config secret"

// missingRetry is when Secrets are looked for again that do not exist, should their creation be missed.
const missingRetry = time.Minute

// New returns a Controller.
func New(deps Deps) *Controller {
	c := &Controller{Deps: deps}
	c.Controller = kinds.New(kinds.Config[*metal3.BareMetalSwitch]{
		Name: "baremetalswitches", Objects: deps.Switches, Example: &metal3.BareMetalSwitch{}, Namespaces: deps.Namespaces,
		Indexers: cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
		// The configuration of all switches of a namespace is written together.
		KeysOf: func(device *metal3.BareMetalSwitch) []types.NamespacedName {
			return []types.NamespacedName{{Namespace: device.Namespace}}
		},
		Reconcile: c.reconcile,
	})
	return c
}

// SecretChanged requeues the switches of a namespace if a Secret is about them. It does so for the Secrets that receive the configuration
// also where there are no switches: nothing else shows a new leader that the last one was deleted while nobody led.
func (c *Controller) SecretChanged(namespace, name string) {
	isOurs := name == c.Settings.ConfigsSecret || name == c.Settings.CredentialsSecret
	if isOurs || slices.ContainsFunc(c.devices(namespace), func(d *metal3.BareMetalSwitch) bool {
		secret, err := credentialsSecret(d)
		return err == nil && secret == name
	}) {
		c.Enqueue(namespace, "")
	}
}

// devices returns the switches of a namespace, sorted by name. They must not be changed.
func (c *Controller) devices(namespace string) []*metal3.BareMetalSwitch {
	devices := c.ByIndex(cache.NamespaceIndex, namespace)
	slices.SortFunc(devices, func(a, b *metal3.BareMetalSwitch) int { return cmp.Compare(a.Name, b.Name) })
	return devices
}

func (c *Controller) reconcile(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	return c.configure(ctx, key.Namespace, c.devices(key.Namespace))
}

// configure writes the configuration of the switches of a namespace. One that cannot be configured
// is left out, and says why.
func (c *Controller) configure(ctx context.Context, namespace string, devices []*metal3.BareMetalSwitch) (time.Duration, error) {
	config, keys := header, map[string][]byte{}
	verdicts := make([]metav1.Condition, len(devices))
	var after time.Duration
	for i, device := range devices {
		if !device.DeletionTimestamp.IsZero() {
			continue
		}
		if err := c.Fence.Check(); err != nil {
			return 0, err
		}
		found, problem, err := c.credentials(ctx, device)
		switch {
		case err != nil:
			// Without this switch, the configuration would take away what may work.
			if apierrors.IsInternalError(err) { // as for a Secret that kube-apiserver cannot decrypt
				verdicts[i] = verdict(metav1.ConditionUnknown, SecretErrorReason, err.Error()+"; until it can be read, no switch of this namespace is configured")
			}
			return 0, cmp.Or(c.report(ctx, devices[i:i+1], verdicts[i:]), err)
		case problem != "":
			verdicts[i] = verdict(metav1.ConditionFalse, CredentialErrorReason, problem)
			after = missingRetry
			continue
		}
		if err := checkSpec(&device.Spec); err != nil {
			verdicts[i] = verdict(metav1.ConditionFalse, ConfigurationErrorReason, err.Error())
			continue
		}
		verdicts[i] = verdict(metav1.ConditionTrue, ReconciledReason, reconciledMessage)
		config += section(device, found, c.Settings.CredentialsPath)
		if len(found.privateKey) > 0 {
			keys[keyFile(device)] = found.privateKey
		}
	}
	for _, secret := range c.secretsOf(config, keys) {
		if err := c.Fence.Check(); err != nil {
			return 0, err
		}
		mayReplace := secret.isOurs
		if len(devices) > 0 {
			mayReplace = nil // the flags say that it is for them
		}
		err := c.Secrets.ReplaceData(ctx, namespace, secret.name, secret.data, mayReplace)
		if apierrors.IsNotFound(err) && len(devices) > 0 {
			after = missingRetry
		}
		if err == nil || apierrors.IsNotFound(err) && len(devices) == 0 {
			continue
		}
		for i := range verdicts {
			if verdicts[i].Status == metav1.ConditionTrue {
				verdicts[i] = verdict(metav1.ConditionFalse, SecretErrorReason, fmt.Sprintf("secret %s/%s cannot be written: %s", namespace, secret.name, reasonOf(err)))
			}
		}
		if !apierrors.IsNotFound(err) {
			return 0, cmp.Or(c.report(ctx, devices, verdicts), err)
		}
	}
	return after, c.report(ctx, devices, verdicts)
}

// written is a Secret that receives a part of the configuration.
type written struct {
	name string
	data map[string][]byte
	// isOurs reports whether what is in it was written for switches. In a namespace without any, a Secret of that name may be somebody
	// else's.
	isOurs func(is map[string][]byte) bool
}

// secretsOf returns the Secrets that receive the configuration. The keys come first: the configuration refers to them.
func (c *Controller) secretsOf(config string, keys map[string][]byte) []written {
	return []written{
		{c.Settings.CredentialsSecret, keys, hasKeyFiles},
		{c.Settings.ConfigsSecret, map[string][]byte{configKey: []byte(config)}, hasConfig},
	}
}

// credentials returns the credentials of a switch, or what is wrong with them.
func (c *Controller) credentials(ctx context.Context, device *metal3.BareMetalSwitch) (found credentials, problem string, err error) {
	name, err := credentialsSecret(device)
	if err != nil {
		return found, err.Error(), nil
	}
	data, err := c.Secrets.Own(ctx, device.Namespace, name, metal3.NewOwnerReference("BareMetalSwitch", device), namesCredentials)
	if apierrors.IsNotFound(err) {
		return found, fmt.Sprintf("credentials secret %s/%s not found", device.Namespace, name), nil
	}
	if secrets.IsRefusal(err) {
		return found, err.Error(), nil
	}
	if err != nil {
		return found, "", fmt.Errorf("reading Secret %s/%s: %w", device.Namespace, name, err)
	}
	if found, err = credentialsIn(name, data); err != nil {
		return found, err.Error(), nil
	}
	return found, "", nil
}

// reasonOf describes a failed write without what was written.
func reasonOf(err error) string {
	if reason := apierrors.ReasonForError(err); reason != metav1.StatusReasonUnknown {
		return string(reason)
	}
	return "kube-apiserver did not confirm it"
}

func verdict(status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: ValidCondition, Status: status, Reason: reason, Message: lifecycle.CutMessage(message)}
}

// report records the conditions of switches, where they differ.
func (c *Controller) report(ctx context.Context, devices []*metal3.BareMetalSwitch, verdicts []metav1.Condition) error {
	var failed error
	for i, device := range devices {
		if verdicts[i].Type == "" {
			continue // it is being deleted
		}
		updated := device.DeepCopy()
		verdicts[i].ObservedGeneration = device.Generation
		if !meta.SetStatusCondition(&updated.Status.Conditions, verdicts[i]) {
			continue
		}
		if _, err := c.Switches.UpdateStatus(ctx, updated); err != nil && !apierrors.IsNotFound(err) {
			failed = err
		}
	}
	return failed
}
