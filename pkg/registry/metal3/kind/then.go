// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
)

// Then extends validate, which runs admission and may be nil: what it permits, check has to permit, too.
func Then(validate, check rest.ValidateObjectFunc) rest.ValidateObjectFunc {
	return func(ctx context.Context, obj runtime.Object) error {
		if validate != nil {
			if err := validate(ctx, obj); err != nil {
				return err
			}
		}
		return check(ctx, obj)
	}
}

// ThenOnUpdate does what Then does, for changes.
func ThenOnUpdate(validate, check rest.ValidateObjectUpdateFunc) rest.ValidateObjectUpdateFunc {
	return func(ctx context.Context, obj, old runtime.Object) error {
		if validate != nil {
			if err := validate(ctx, obj, old); err != nil {
				return err
			}
		}
		return check(ctx, obj, old)
	}
}
