// SPDX-License-Identifier: Apache-2.0

package panics

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"k8s.io/klog/v2"
)

// ErrBug is that the server cannot cope with an object.
var ErrBug = errors.New("this is a bug of metal3-apiserver, please report it with its log")

// Catch must be deferred by a function that is about one object. A panic of that function is logged, with what it is about, and its
// caller goes on. caught is given the error, and says what becomes of the object; nil if that is nothing.
func Catch(ctx context.Context, caught func(error), about ...any) {
	cause := recover()
	if cause == nil {
		return
	}
	err := fmt.Errorf("%w: panic: %v", ErrBug, cause)
	klog.FromContext(ctx).Error(err, "Panic", append(about, "stack", string(debug.Stack()))...)
	if caught != nil {
		caught(err)
	}
}
