// SPDX-License-Identifier: Apache-2.0

package baremetalhost

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// retryREST serves baremetalhosts/retry: POST has the controller try again at once what has
// failed. It does so by setting the error count to 0, for which the controller has no back-off.
// Ironic is not asked.
type retryREST struct {
	requestKind[*metal3.HostRetry]
	Sources
	status HostChanger
}

// NewRetryREST returns the storage of baremetalhosts/retry. status changes the status of hosts on
// behalf of the user.
func NewRetryREST(sources Sources, status HostChanger) rest.Storage {
	return &retryREST{
		requestKind: requestKind[*metal3.HostRetry]{
			kind:        "HostRetry",
			newRequest:  func() *metal3.HostRetry { return &metal3.HostRetry{} },
			resetStatus: func(r *metal3.HostRetry) { r.Status = metal3.HostRetryStatus{} },
		},
		Sources: sources, status: status,
	}
}

// Create resets the error counts of the host. This is also possible while the host is being
// deleted, because a deletion can fail, too.
func (r *retryREST) Create(ctx context.Context, name string, obj runtime.Object, createValidation rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	retry, err := r.accept(ctx, name, obj, createValidation)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, actionTimeout)
	defer cancel()
	dryRun := dryrun.IsDryRun(options.DryRun)
	changed, err := r.status.Change(ctx, retry.Namespace, name, dryRun, func(host *metal3.BareMetalHost) error {
		if metal3.IsPaused(host) {
			return conflict(host, fmt.Errorf("it is paused, so nothing is tried: remove the annotation %s first", metal3.PausedAnnotation))
		}
		retry.Status = resetErrorCounts(&host.Status)
		return nil
	})
	if err != nil {
		return nil, writeError(name, err)
	}
	if !dryRun {
		r.tell(ctx, changed, r.kind, retry)
	}
	return retry, nil
}

// resetErrorCounts sets the error counts to 0, and returns what they were. The error itself remains
// until the outcome of the next attempt is known.
func resetErrorCounts(status *metal3.BareMetalHostStatus) metal3.HostRetryStatus {
	previous := metal3.HostRetryStatus{ErrorType: status.ErrorType, ErrorMessage: status.ErrorMessage, ErrorCount: status.ErrorCount}
	counted := status.ErrorCount > 0 || status.ProvisioningFailCount > 0
	if counted {
		status.ErrorCount, status.ProvisioningFailCount, status.Record.MachineErrors = 0, 0, 0
	}
	if mayHaveFormerPassword(status) {
		status.TriedCredentials.Version = "" // Ironic is told the Secret's again
	}
	switch {
	case status.ErrorType == "":
		previous.Message = "there was nothing to retry: the host has no error"
	case status.Record.Hold != nil:
		previous.Message = "the host is held, see its condition Held; what is tried all the same is tried again in about 20 minutes at the latest"
	case counted:
		previous.Message = "the host is tried again now, and its errors are counted from 0"
	default:
		previous.Message = "the host was already due to be tried again"
	}
	return previous
}

// mayHaveFormerPassword reports whether Ironic may have another password than the Secret, because its database was restored: it shows
// none, but the BMC may be refusing it.
func mayHaveFormerPassword(status *metal3.BareMetalHostStatus) bool {
	failed := status.Record.Error
	return failed != nil && (failed.Cause == metal3.BMCRefuses || failed.Cause == metal3.BMCSilentOrRefuses)
}
