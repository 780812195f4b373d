// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"slices"
	"strings"
)

// object is a JSON object column of a node or port. It is never changed, only
// replaced, so that a reader can go on with it without a lock.
type object struct {
	fields map[string]any
	// raw is the object as JSON; masked is what an API client may see of it.
	raw, masked []byte
}

var emptyObject = &object{fields: map[string]any{}, raw: []byte("{}"), masked: []byte("{}")}

// newObject keeps m, which the caller must not change any more.
func newObject(m map[string]any) *object {
	if len(m) == 0 {
		return emptyObject
	}
	raw := mustJSON(m)
	return &object{fields: m, raw: raw, masked: raw}
}

// newSecretObject is newObject for the columns that Ironic masks on reading:
// driver_info, driver_internal_info and instance_info.
func newSecretObject(m map[string]any) *object {
	o := newObject(m)
	if len(m) != 0 {
		o.masked = mustJSON(maskSecrets(m))
	}
	return o
}

// with returns the object with one key replaced.
func (o *object) with(key string, value any) map[string]any {
	m := make(map[string]any, len(o.fields)+1)
	for k, v := range o.fields {
		m[k] = v
	}
	m[key] = value
	return m
}

// without returns the object without some keys.
func (o *object) without(keys ...string) map[string]any {
	m := make(map[string]any, len(o.fields))
	for k, v := range o.fields {
		if !slices.Contains(keys, k) {
			m[k] = v
		}
	}
	return m
}

func (o *object) string(key string) string {
	s, _ := o.fields[key].(string)
	return s
}

const mask = "******"

// secretWords are the parts of a key that oslo.utils takes for a secret, plus
// the keys that Ironic's node API masks on top.
var secretWords = []string{"password", "adminpass", "admin_pass", "new_pass", "secret", "sys_pswd", "token", "configdrive", "encrypted_key", "private_key", "sslkey", "passphrase"}

var secretKeys = []string{"snmp_auth_key", "snmp_priv_key", "image_url"}

// maskSecrets looks into objects but, as Ironic, not into lists.
func maskSecrets(m map[string]any) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		if sub, ok := v.(map[string]any); ok && k != "configdrive" {
			out[k] = maskSecrets(sub)
			continue
		}
		key := strings.ToLower(k)
		if slices.Contains(secretKeys, key) || slices.ContainsFunc(secretWords, func(w string) bool { return strings.Contains(key, w) }) {
			v = mask
		}
		out[k] = v
	}
	return out
}
