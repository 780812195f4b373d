// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"reflect"
	"strings"
	"time"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Text is what somebody may write who wants to do something to the terminal or the browser in which it is
// shown: a script in HTML, escape sequences (also those that begin with a control character above
// ASCII), what turns the direction of text, and line breaks.
const Text = `"'><script>window.hacked=1</script><img id=hostile src=x onerror="window.hacked=1"><svg id=hostile onload="window.hacked=1">` +
	"\x1b]0;title\x07\x1b[2J\x1b[31m\x08\x00\x7f\u0085\u009b31m\u009d0;title\u009c" +
	"\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029\r\n" + Line + "\n"

// Line begins a line of Text.
const Line = "injected: line"

// Fill puts text into all strings of an object, and something else that is not zero into the other fields.
func Fill(object any, text string) { fill(reflect.ValueOf(object).Elem(), text) }

func fill(v reflect.Value, text string) {
	if !v.CanSet() {
		return
	}
	switch v.Interface().(type) {
	case metav1.Time:
		v.Set(reflect.ValueOf(metav1.NewTime(time.Now().Add(-time.Hour))))
		return
	case []metav1.ManagedFieldsEntry, runtime.RawExtension, metav1.TypeMeta: // of a form of their own
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), text)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fill(v.Index(i), text)
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, text)
		fill(value, text)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), text)
		}
	}
}

// In returns what a terminal must not be sent and an output has all the same; empty if that is nothing.
func In(output string) string {
	for i, r := range output {
		if r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) || r == '\u2028' || r == '\u2029' {
			return "a control character in " + excerpt(output, i)
		}
	}
	for line := range strings.Lines(output) {
		if strings.HasPrefix(strings.TrimSpace(line), Line) {
			return "a line of its own"
		}
	}
	return ""
}

func excerpt(output string, at int) string { return output[max(0, at-40):min(len(output), at+10)] }
