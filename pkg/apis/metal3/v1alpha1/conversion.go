// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"errors"
	"net/url"

	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
)

// addConversionFuncs adds the conversions of query parameters.
func addConversionFuncs(scheme *runtime.Scheme) error {
	err := scheme.AddConversionFunc((*url.Values)(nil), (*HostHistoryOptions)(nil), func(in, out any, _ conversion.Scope) error {
		values, options := *in.(*url.Values), out.(*HostHistoryOptions)
		options.Continue = values.Get("continue")
		limit := values["limit"]
		return runtime.Convert_Slice_string_To_int64(&limit, &options.Limit, nil)
	})
	if err != nil {
		return err
	}
	return scheme.AddConversionFunc((*url.Values)(nil), (*HostConsoleOptions)(nil), func(in, out any, _ conversion.Scope) error {
		values, options := *in.(*url.Values), out.(*HostConsoleOptions)
		force, share := values["force"], values["share"]
		return errors.Join(runtime.Convert_Slice_string_To_bool(&force, &options.Force, nil),
			runtime.Convert_Slice_string_To_bool(&share, &options.Share, nil))
	})
}
