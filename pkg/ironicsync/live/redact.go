package live

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/secrets"
)

// RedactPassword takes the password of the host's BMC out of what Ironic says of its node
// (last_error, maintenance_reason), wherever in a sentence a driver has put it. Words
// that are recorded already are shown to everybody, and are left as they are: so the
// Secret is read once for new words, and again only while the password is in them.
//
// The error is that of reading the Secret, and nothing may be shown then. That there
// is no such Secret is none: nobody knows the password.
func (r *Refresher) RedactPassword(ctx context.Context, host *metal3.BareMetalHost, node *ironic.Node) error {
	if node == nil {
		return nil
	}
	original := *node
	node.RedactPassword("") // long texts are cut, as the recorded ones were
	if r.Secrets == nil || !hasNewWords(host, node) {
		return nil
	}
	name := host.Spec.BMC.CredentialsName
	if len(validation.NameIsDNSSubdomain(name, false)) > 0 {
		return nil // nor is there a Secret of no name
	}
	secret, err := r.Secrets.Secrets(host.Namespace).Get(secrets.Quiet(ctx), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("what it says may hold the password in Secret %q, which cannot be read: %w", name, err)
	}
	if _, password, _ := secrets.CredentialsIn(secret); password != "" {
		// The whole texts: where they are cut, a part of the password could remain.
		node.LastError, node.MaintenanceReason = original.LastError, original.MaintenanceReason
		node.RedactPassword(password)
	}
	return nil
}

func hasNewWords(host *metal3.BareMetalHost, node *ironic.Node) bool {
	recorded := host.Status.Ironic
	if recorded == nil {
		recorded = &metal3.IronicStatus{}
	}
	return node.LastError != "" && node.LastError != recorded.LastError ||
		node.MaintenanceReason != "" && node.MaintenanceReason != recorded.MaintenanceReason
}

// withheld stands for what may quote a password that is not known, as the Secret cannot
// be read. It ends with the reason.
const withheld = "withheld, as it may quote the password of the BMC: "

// withhold hides the texts of Ironic's that are new.
func withhold(host *metal3.BareMetalHost, node *ironic.Node, reason error) {
	recorded := host.Status.Ironic
	if recorded == nil {
		recorded = &metal3.IronicStatus{}
	}
	if node.LastError != recorded.LastError && node.LastError != "" {
		node.LastError = withheld + reason.Error()
	}
	if node.MaintenanceReason != recorded.MaintenanceReason && node.MaintenanceReason != "" {
		node.MaintenanceReason = withheld + reason.Error()
	}
}

func isWithheld(node *ironic.Node) bool {
	return strings.HasPrefix(node.LastError, withheld) || strings.HasPrefix(node.MaintenanceReason, withheld)
}
