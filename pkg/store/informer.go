// SPDX-License-Identifier: Apache-2.0

package store

import (
	"io"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// internalListOptions converts options for a store.
func internalListOptions(options *metav1.ListOptions) (*metainternalversion.ListOptions, error) {
	internal := &metainternalversion.ListOptions{}
	return internal, metainternalversion.Convert_v1_ListOptions_To_internalversion_ListOptions(options, internal, nil)
}

// forInformer returns a watch of a store in a form that informers can handle. The watch cache wraps
// objects in CacheableObjects, which are encoded only once for all watchers of the API. What
// informers get are copies, which prepare can change if it is not nil.
func forInformer(stored watch.Interface, prepare func(runtime.Object)) watch.Interface {
	return watch.NewStreamWatcher(unwrapped{stored, prepare}, nil) // the reporter is only for errors other than io.EOF
}

type unwrapped struct {
	watch.Interface
	prepare func(runtime.Object)
}

func (u unwrapped) Decode() (watch.EventType, runtime.Object, error) {
	event, ok := <-u.ResultChan()
	if !ok {
		return "", nil, io.EOF
	}
	obj := event.Object
	if cached, ok := obj.(runtime.CacheableObject); ok {
		obj = cached.GetObject()
	}
	if u.prepare != nil {
		u.prepare(obj)
	}
	return event.Type, obj, nil
}

func (u unwrapped) Close() { u.Stop() }
