// SPDX-License-Identifier: Apache-2.0

package store

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/lru"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// Nearly all hosts have the same types and reasons of conditions and the same managed fields, but decoding
// makes new ones for each version of each host. Those that are shared must never be changed in place.

// maxInternedTexts and maxInternedFields bound how many of them are kept, and maxInternedSize, in bytes,
// how large each may be. What users write may be larger than that, and is not shared then.
const (
	maxInternedTexts  = 1024
	maxInternedFields = 256
	maxInternedSize   = 8 << 10
)

// internPool finds what other hosts have in memory already. The package unique would not: it forgets a text when
// the last Handle is gone, and the API's types are strings.
type internPool struct {
	texts  *lru.Cache // of string, by the string itself
	fields *lru.Cache // of *metav1.FieldsV1, by their JSON
}

func newInternPool() *internPool {
	return &internPool{texts: lru.New(maxInternedTexts), fields: lru.New(maxInternedFields)}
}

// share replaces what the host has in common with others. Nobody else may be using the host yet.
func (p *internPool) share(host *metal3.BareMetalHost) {
	p.shareTexts(&host.Kind, &host.APIVersion, &host.Namespace)
	// Decoding leaves slices with unused capacity; clones have less.
	host.ManagedFields = slices.Clone(host.ManagedFields)
	for i := range host.ManagedFields {
		m := &host.ManagedFields[i]
		p.shareTexts(&m.Manager, (*string)(&m.Operation), &m.APIVersion, &m.FieldsType, &m.Subresource)
		m.FieldsV1 = p.sharedFields(m.FieldsV1)
	}
	host.Status.Conditions = slices.Clone(host.Status.Conditions)
	for i := range host.Status.Conditions {
		condition := &host.Status.Conditions[i]
		p.shareTexts(&condition.Type, (*string)(&condition.Status), &condition.Reason)
	}
}

func (p *internPool) shareTexts(texts ...*string) {
	for _, text := range texts {
		if known, ok := p.texts.Get(*text); ok {
			*text = known.(string)
		} else if *text != "" && len(*text) <= maxInternedSize {
			p.texts.Add(*text, *text)
		}
	}
}

func (p *internPool) sharedFields(fields *metav1.FieldsV1) *metav1.FieldsV1 {
	if fields == nil {
		return nil
	}
	key := fields.GetRawString()
	if known, ok := p.fields.Get(key); ok {
		return known.(*metav1.FieldsV1)
	}
	if len(key) <= maxInternedSize {
		p.fields.Add(key, fields)
	}
	return fields
}
