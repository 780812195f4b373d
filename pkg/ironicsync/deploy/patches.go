// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

// mask is what Ironic shows in place of a secret: in place of the whole value
// where the key sounds like one (image_pull_secret), and within a text where it
// finds something like token=... (the query of a signed URL).
const mask = "******"

const pullSecretKey = "image_pull_secret"

// instanceKeys are the keys of instance_info that are ours to set and to remove.
// Ironic and others keep more there.
var instanceKeys = []string{
	"boot_iso", "capabilities", "image_checksum", "image_disk_format", "image_os_hash_algo",
	"image_os_hash_value", pullSecretKey, "image_source", "root_device",
}

// InstanceInfoPatches returns what turns the node's instance_info into what
// InstanceInfo wants: only what differs, as Ironic 29.0.5 harms a node with each
// PATCH, and nothing of what is not ours. It is for a node that is yet to be
// deployed: Ironic itself completes and rewrites these values as it deploys, and
// removes all of them as it undeploys.
//
// A masked value cannot be compared. In a new attempt to deploy, it is sent: a
// former one, which may have been another tenant's, may have left it there. So it is
// in each attempt to rebuild: nothing is undeployed in between, and a corrected pull
// secret would never replace one that has failed. In a repetition, where everything
// that does show is as it should be, it is taken to be so as well: to send it would
// differ again the next time, without end. But it is sent along whenever anything
// about the image is sent. What that misses is a pull secret that changes between a
// request for deployment and its repetition while all else stays: that deployment
// fails with the old one and is undeployed, and the next has the new one.
func InstanceInfoPatches(current, wanted map[string]any, newAttempt bool) []ironic.Patch {
	var patches []ironic.Patch
	imageDiffers := false
	for _, key := range instanceKeys {
		want, wants := wanted[key]
		has := current[key] // null where Ironic keeps the key without a value
		switch {
		case wants && (has == nil || !same(has, want) || newAttempt && isMasked(has)):
			patches = append(patches, ironic.Patch{Op: ironic.PatchAdd, Path: "/instance_info/" + key, Value: want})
		case has != nil && !wants:
			patches = append(patches, ironic.Patch{Op: ironic.PatchRemove, Path: "/instance_info/" + key})
		default:
			continue
		}
		imageDiffers = imageDiffers || strings.HasPrefix(key, "image_")
	}
	secret, wants := wanted[pullSecretKey]
	path := "/instance_info/" + pullSecretKey
	sent := slices.ContainsFunc(patches, func(p ironic.Patch) bool { return p.Path == path })
	if imageDiffers && wants && !sent {
		patches = append(patches, ironic.Patch{Op: ironic.PatchAdd, Path: path, Value: secret})
	}
	return patches
}

// same compares what Ironic shows with what is wanted, as JSON and as far as it
// is not masked.
func same(has, want any) bool {
	if isMasked(has) {
		text, ok := want.(string)
		return ok && matchesMasked(has.(string), text)
	}
	return reflect.DeepEqual(asJSON(has), asJSON(want))
}

// isMasked reports whether Ironic does not show all of a value.
func isMasked(has any) bool {
	shown, ok := has.(string)
	return ok && strings.Contains(shown, mask)
}

// matchesMasked reports whether text, masked in places, reads as shown.
func matchesMasked(shown, text string) bool {
	pieces := strings.Split(shown, mask)
	rest, ok := strings.CutPrefix(text, pieces[0])
	if !ok {
		return false
	}
	last := len(pieces) - 1
	for _, piece := range pieces[1:last] {
		if _, rest, ok = strings.Cut(rest, piece); !ok {
			return false
		}
	}
	return strings.HasSuffix(rest, pieces[last])
}

// asJSON makes values comparable that are the same to Ironic.
func asJSON(value any) any {
	data, err := json.Marshal(value)
	if err != nil {
		return value
	}
	var decoded any
	if json.Unmarshal(data, &decoded) != nil {
		return value
	}
	return decoded
}
