package drive

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// isPassing tells whether an error says nothing about the step: Ironic is away, somebody
// else works on the node or has written the host, or the time is up.
func isPassing(err error) bool {
	return ironic.IsUnavailable(err) || ironic.IsLocked(err) || apierrors.IsConflict(err) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// blocked is a step that cannot be taken for want of something in the cluster.
type blocked struct{ message string }

func (e *blocked) Error() string { return e.message }

// conflictTries is the number of failures in a row, which take some twelve seconds, after
// which a 409 of Ironic counts as a refusal. (A lock never does: it ends by itself.)
const conflictTries = 6

// refusal returns the words of an error that will be the same again, until
// somebody corrects what it is about.
func refusal(err error, tries int) (string, bool) {
	if missing := new(blocked); errors.As(err, &missing) {
		return missing.message, true
	}
	var answer *ironic.APIError
	if !errors.As(err, &answer) || ironic.IsLocked(err) || ironic.IsUnavailable(err) || ironic.IsNotFound(err) || ironic.IsConflict(err) && tries < conflictTries {
		return "", false
	}
	return answer.Message, true
}
