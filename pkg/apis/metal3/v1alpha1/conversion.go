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
	return scheme.AddConversionFunc((*url.Values)(nil), (*HostHistoryOptions)(nil), func(in, out any, s conversion.Scope) error {
		return Convert_url_Values_To_HostHistoryOptions(in.(*url.Values), out.(*HostHistoryOptions), s)
	})
}

// Convert_url_Values_To_HostHistoryOptions reads the options from a query.
func Convert_url_Values_To_HostHistoryOptions(in *url.Values, out *HostHistoryOptions, s conversion.Scope) error {
	out.Continue = in.Get("continue")
	limit := (*in)["limit"]
	return runtime.Convert_Slice_string_To_int64(&limit, &out.Limit, s)
}
