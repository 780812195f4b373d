// SPDX-License-Identifier: Apache-2.0

package store

import (
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

const (
	// wordSize is the unit in which the Go runtime allocates texts, in bytes.
	wordSize = 8
	// mapEntry is what an entry of a map takes besides the places of its key and its value, in bytes. Of these places, up to a half
	// are empty.
	mapEntry = 16
)

// weigh returns about how many bytes of memory a version of an object takes: in a test, a quarter more or less than the heap grew. Its
// JSON can be much smaller. An empty network interface in an inventory has three bytes there, and 150 in memory. The hardware details of a
// host, which its versions share, are not included.
func weigh(obj runtime.Object) int64 {
	v := reflect.ValueOf(obj)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return 0
	}
	if host, ok := obj.(*metal3.BareMetalHost); ok && host.Status.HardwareDetails != nil {
		shallow := *host
		shallow.Status.HardwareDetails = nil
		v = reflect.ValueOf(&shallow)
	}
	return outside(v)
}

var timeType = reflect.TypeFor[time.Time]()

// outside returns how many bytes a value takes outside of itself, in what it points to.
func outside(v reflect.Value) int64 {
	var bytes int64
	switch v.Kind() {
	case reflect.String:
		return int64(v.Len()+wordSize-1) &^ (wordSize - 1)
	case reflect.Pointer:
		if v.IsNil() {
			return 0
		}
		return int64(v.Type().Elem().Size()) + outside(v.Elem())
	case reflect.Interface:
		if v.IsNil() {
			return 0
		}
		return int64(v.Elem().Type().Size()) + outside(v.Elem())
	case reflect.Struct:
		if v.Type() == timeType {
			return 0 // its location is shared
		}
		for i := range v.NumField() {
			bytes += outside(v.Field(i))
		}
	case reflect.Slice:
		bytes = int64(v.Len()) * int64(v.Type().Elem().Size())
		if flat(v.Type().Elem().Kind()) {
			return bytes
		}
		for i := range v.Len() {
			bytes += outside(v.Index(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			bytes += outside(v.Index(i))
		}
	case reflect.Map:
		entry := int64(v.Type().Key().Size()+v.Type().Elem().Size())*2 + mapEntry
		for entries := v.MapRange(); entries.Next(); {
			bytes += entry + outside(entries.Key()) + outside(entries.Value())
		}
	}
	return bytes
}

// flat reports whether values of a kind take nothing outside of themselves.
func flat(kind reflect.Kind) bool { return kind >= reflect.Bool && kind <= reflect.Complex128 }
