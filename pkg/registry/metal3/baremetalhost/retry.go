package baremetalhost

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// RetryREST serves baremetalhosts/retry: POST has what failed tried again now.
// Ironic is not asked: an error whose count is 0 is the controller's order to try.
type RetryREST struct {
	status *StatusREST
	actionTable
}

// NewRetryREST returns the retry subresource of the hosts that status writes.
func NewRetryREST(status *StatusREST) *RetryREST { return &RetryREST{status: status} }

var (
	_ rest.NamedCreater   = &RetryREST{}
	_ rest.TableConvertor = &RetryREST{}
)

// New returns an empty HostRetry.
func (*RetryREST) New() runtime.Object { return &metal3.HostRetry{} }

// Destroy has nothing to destroy.
func (*RetryREST) Destroy() {}

// Create has the host tried again, also one that is being deleted: a deletion
// gets stuck too.
func (r *RetryREST) Create(ctx context.Context, name string, obj runtime.Object, createValidation rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	retry, ok := obj.(*metal3.HostRetry)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not a HostRetry: %T", obj))
	}
	retry.Status = metal3.HostRetryStatus{}
	// Its spec has nothing in it that could be wrong.
	err := admit(ctx, "HostRetry", name, retry, &retry.ObjectMeta, createValidation, func() field.ErrorList { return nil })
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, actionTimeout)
	defer cancel()
	_, err = updateHost(ctx, r.status, name, &metav1.UpdateOptions{DryRun: options.DryRun}, func(host *metal3.BareMetalHost) error {
		if _, paused := host.Annotations[metal3.PausedAnnotation]; paused {
			return conflict(host, fmt.Errorf("it is paused, so nothing is tried: remove the annotation %s first", metal3.PausedAnnotation))
		}
		retry.Status = startAgain(&host.Status)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return retry, nil
}

// startAgain makes the errors in a row none, and tells what they were. The error
// itself stays until the next attempt has its outcome.
func startAgain(status *metal3.BareMetalHostStatus) metal3.HostRetryStatus {
	was := metal3.HostRetryStatus{ErrorType: status.ErrorType, ErrorMessage: status.ErrorMessage, ErrorCount: status.ErrorCount}
	counted := status.ErrorCount > 0 || status.ProvisioningFailCount > 0
	if counted {
		status.ErrorCount, status.ProvisioningFailCount = 0, 0
		now := metav1.Now()
		status.LastUpdated = &now
	}
	switch {
	case status.ErrorType == "":
		was.Message = "there was nothing to retry: the host has no error"
	case counted:
		was.Message = "the host is tried again now, and its errors are counted from 0"
	default:
		was.Message = "the host was to be tried again now already"
	}
	return was
}
