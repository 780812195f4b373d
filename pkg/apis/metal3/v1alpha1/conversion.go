package v1alpha1

import (
	"net/url"

	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
)

// addConversionFuncs adds the conversions of query parameters.
func addConversionFuncs(scheme *runtime.Scheme) error {
	err := scheme.AddConversionFunc((*url.Values)(nil), (*HostConsoleOptions)(nil), func(in, out any, s conversion.Scope) error {
		return Convert_url_Values_To_HostConsoleOptions(in.(*url.Values), out.(*HostConsoleOptions), s)
	})
	if err != nil {
		return err
	}
	return scheme.AddConversionFunc((*url.Values)(nil), (*HostHistoryOptions)(nil), func(in, out any, _ conversion.Scope) error {
		values, options := *in.(*url.Values), out.(*HostHistoryOptions)
		options.Continue = values.Get("continue")
		limit := values["limit"]
		return runtime.Convert_Slice_string_To_int64(&limit, &options.Limit, nil)
	})
}
