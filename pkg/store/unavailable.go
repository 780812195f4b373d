// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// unavailableRetry is the Retry-After while Ironic or etcd does not answer. It is short,
// because client-go retries up to ten times while the user waits.
const unavailableRetry = time.Second

// Unavailable returns a 503 for a host with Retry-After, after which clients repeat the request by
// themselves.
func Unavailable(name, message string) error {
	status := apierrors.NewServiceUnavailable(fmt.Sprintf("baremetalhost %q: %s", name, message))
	status.ErrStatus.Details = &metav1.StatusDetails{
		Group: metal3.GroupName, Kind: "baremetalhosts", Name: name, RetryAfterSeconds: int32(unavailableRetry.Seconds()),
	}
	return status
}
