// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic/redact"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/secrets"
)

// Passwords keeps the passwords of BMCs out of what Ironic says of hosts.
type Passwords struct {
	read secrets.Reader
}

// NewPasswords returns Passwords that are read from Secrets.
func NewPasswords(read secrets.Reader) Passwords { return Passwords{read} }

// RedactPassword removes the password of the host's BMC from the texts of its node
// (last_error, maintenance_reason), wherever a driver has put it. Texts that are recorded
// already, and so visible to everybody, are left as they are. So the Secret is read once for
// each new text, and every time only for texts that contain the password.
//
// The error is that of reading the Secret, or that no BMC takes its password. After an error, the texts must not be shown to
// anybody. It is not an error if there is no such Secret.
func (p Passwords) RedactPassword(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node) error {
	if node == nil {
		return nil
	}
	original := *node
	node.RedactPassword("") // shortens long texts in the same way as the recorded ones
	if !hasNewTexts(host, node) {
		return nil
	}
	password, err := p.passwordOf(ctx, host)
	if err != nil || password == "" {
		return err
	}
	// Redact the whole texts: where a text was shortened, a part of the password could remain.
	node.LastError, node.MaintenanceReason = original.LastError, original.MaintenanceReason
	node.RedactPassword(password, writtenIn(host)...)
	return nil
}

// Guard returns a context for requests to Ironic about a host: what Ironic answers does not have the password of the host's
// BMC in it, which is read only then. If it cannot be read, the words are withheld.
func (p Passwords) Guard(ctx context.Context, host *metal3.BareMetalHost) context.Context {
	return redact.With(ctx, func(ctx context.Context) (redact.Known, error) {
		known := redact.Known{Written: writtenIn(host)}
		password, err := p.passwordOf(ctx, host)
		if password != "" {
			known.Secrets = []string{password}
		}
		return known, err
	})
}

// writtenIn returns the texts of a host that users have written, and Ironic repeats in its messages.
func writtenIn(host *metal3.BareMetalHost) []string {
	var written []string
	add := func(texts ...string) {
		for _, text := range texts {
			if strings.Contains(text, "://") { // otherwise it could be nothing but a guess
				written = append(written, text)
			}
		}
	}
	add(host.Spec.BMC.Address)
	for _, image := range []*metal3.Image{host.Spec.Image, &host.Status.Provisioning.Image} {
		if image != nil {
			add(image.URL, image.Checksum)
		}
	}
	return written
}

// passwordOf reads the password of the host's BMC; empty if there is no such Secret. One that is too long to be looked for is an error.
func (p Passwords) passwordOf(ctx context.Context, host *metal3.BareMetalHost) (string, error) {
	name := host.Spec.BMC.CredentialsName
	if len(validation.NameIsDNSSubdomain(name, false)) > 0 {
		return "", nil // no Secret can have this name
	}
	secret, err := p.read(ctx, host.Namespace, name)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("what it says may hold the password in Secret %q, which cannot be read: %w", name, err)
	}
	_, password, _ := secrets.CredentialsIn(secret)
	if len(password) > secrets.MaxPassword {
		// It would take long to look for it, each time. Ironic was not sent it, but perhaps a part of it.
		return "", fmt.Errorf("the password in Secret %q has more than %d bytes, which no BMC takes", name, secrets.MaxPassword)
	}
	return password, nil
}

// hasNewTexts reports whether the node has a text that is not recorded in the host's status.
//
// The reason of a maintenance that a user has requested does not count. It is not compared with the password: who may
// request a maintenance and not read the Secret would otherwise learn from what is struck out whether a guess is right.
func hasNewTexts(host *metal3.BareMetalHost, node *ironic.Node) bool {
	recorded := host.Status.Ironic
	if recorded == nil {
		recorded = &metal3.IronicStatus{}
	}
	return node.LastError != "" && node.LastError != recorded.LastError ||
		isReasonOfIronic(node) && node.MaintenanceReason != recorded.MaintenanceReason
}

func isReasonOfIronic(node *ironic.Node) bool {
	return node.MaintenanceReason != "" && !ironic.IsRequestedMaintenance(node.MaintenanceReason)
}

// withheld begins the replacement of a text that may contain the password while the Secret
// cannot be read. The reason follows.
const withheld = "withheld, as it may quote the password of the BMC: "

// withhold replaces those texts of the node that are not recorded yet.
func withhold(host *metal3.BareMetalHost, node *ironic.Node, reason error) {
	recorded := host.Status.Ironic
	if recorded == nil {
		recorded = &metal3.IronicStatus{}
	}
	if node.LastError != recorded.LastError && node.LastError != "" {
		node.LastError = withheld + reason.Error()
	}
	if isReasonOfIronic(node) && node.MaintenanceReason != recorded.MaintenanceReason {
		node.MaintenanceReason = withheld + reason.Error()
	}
}

func isWithheld(node *ironic.Node) bool {
	return strings.HasPrefix(node.LastError, withheld) || strings.HasPrefix(node.MaintenanceReason, withheld)
}
