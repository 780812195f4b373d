// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/metal3-io/metal3-apiserver/pkg/ironic"
)

func add(key string, value any) ironic.Patch {
	return ironic.Patch{Op: ironic.PatchAdd, Path: "/instance_info/" + key, Value: value}
}

func remove(key string) ironic.Patch {
	return ironic.Patch{Op: ironic.PatchRemove, Path: "/instance_info/" + key}
}

func TestInstanceInfoPatches(t *testing.T) {
	type m = map[string]any
	tests := map[string]struct {
		current, wanted m
		newAttempt      bool
		want            []ironic.Patch
	}{
		"nothing": {},
		"new": {
			wanted: m{"image_source": "a", "image_checksum": "b"},
			want:   []ironic.Patch{add("image_checksum", "b"), add("image_source", "a")},
		},
		"same": {
			current: m{"image_source": "a", "root_device": m{"name": "s== /dev/sda"}, "capabilities": m{"secure_boot": "true"}},
			wanted:  m{"image_source": "a", "root_device": m{"name": "s== /dev/sda"}, "capabilities": map[string]string{"secure_boot": "true"}},
		},
		"what is not ours stays": {
			current: m{"image_source": "a", "image_url": mask, "image_type": "whole-disk", "configdrive": mask, "display_name": "x", "traits": []any{"T"}},
			wanted:  m{"image_source": "a"},
		},
		"other checksum": {
			current: m{"image_source": "a", "image_os_hash_algo": "md5", "image_os_hash_value": "b"},
			wanted:  m{"image_source": "a", "image_checksum": "c"},
			want:    []ironic.Patch{add("image_checksum", "c"), remove("image_os_hash_algo"), remove("image_os_hash_value")},
		},
		"live ISO after an image": {
			current: m{"image_source": "a", "image_checksum": "b", "image_disk_format": "raw", "image_pull_secret": mask, "root_device": m{"wwn": "s== 1"}, "capabilities": m{"secure_boot": "true"}},
			wanted:  m{"boot_iso": "c"},
			want: []ironic.Patch{
				add("boot_iso", "c"), remove("capabilities"), remove("image_checksum"), remove("image_disk_format"),
				remove("image_pull_secret"), remove("image_source"), remove("root_device"),
			},
		},
		"image after a live ISO": {
			current: m{"boot_iso": "c"},
			wanted:  m{"image_source": "a"},
			want:    []ironic.Patch{remove("boot_iso"), add("image_source", "a")},
		},
		"null is nothing": {
			current: m{"image_checksum": nil, "image_source": nil},
			wanted:  m{"image_source": "a"},
			want:    []ironic.Patch{add("image_source", "a")},
		},
		"other root device": {
			current: m{"root_device": m{"name": "s== /dev/sda", "size": ">= 10"}},
			wanted:  m{"root_device": m{"name": "s== /dev/sda"}},
			want:    []ironic.Patch{add("root_device", m{"name": "s== /dev/sda"})},
		},

		"pull secret, new": {
			current: m{"image_source": "a"},
			wanted:  m{"image_source": "a", "image_pull_secret": "u:p"},
			want:    []ironic.Patch{add("image_pull_secret", "u:p")},
		},
		"pull secret, masked": {
			current: m{"image_source": "a", "image_pull_secret": mask},
			wanted:  m{"image_source": "a", "image_pull_secret": "u:p"},
		},
		"pull secret, shown to an administrator": {
			current: m{"image_source": "a", "image_pull_secret": "u:old"},
			wanted:  m{"image_source": "a", "image_pull_secret": "u:p"},
			want:    []ironic.Patch{add("image_pull_secret", "u:p")},
		},
		"pull secret, masked, with another image": {
			current: m{"image_source": "a", "image_pull_secret": mask},
			wanted:  m{"image_source": "b", "image_pull_secret": "u:p"},
			want:    []ironic.Patch{add("image_source", "b"), add("image_pull_secret", "u:p")},
		},
		"pull secret, masked, with another root device": {
			current: m{"image_source": "a", "image_pull_secret": mask},
			wanted:  m{"image_source": "a", "image_pull_secret": "u:p", "root_device": m{"name": "s== /dev/sda"}},
			want:    []ironic.Patch{add("root_device", m{"name": "s== /dev/sda"})},
		},
		"pull secret, no longer wanted": {
			current: m{"image_source": "a", "image_pull_secret": mask},
			wanted:  m{"image_source": "a"},
			want:    []ironic.Patch{remove("image_pull_secret")},
		},

		"pull secret and signed URL, masked, of a former attempt": {
			current:    m{"image_source": "http://a/x?token=******", "image_pull_secret": mask},
			wanted:     m{"image_source": "http://a/x?token=abc", "image_pull_secret": "u:p"},
			newAttempt: true,
			want:       []ironic.Patch{add("image_pull_secret", "u:p"), add("image_source", "http://a/x?token=abc")},
		},

		"signed URL, masked": {
			current: m{"image_source": "http://a/x?token=******"},
			wanted:  m{"image_source": "http://a/x?token=abc&other=1"},
		},
		"signed URL, masked, of another image": {
			current: m{"image_source": "http://a/x?token=******"},
			wanted:  m{"image_source": "http://a/y?token=abc"},
			want:    []ironic.Patch{add("image_source", "http://a/y?token=abc")},
		},
		"masked in the middle": {
			current: m{"boot_iso": "a ****** b ****** c"},
			wanted:  m{"boot_iso": "a 1 b 2 c"},
		},
		"masked in the middle, other end": {
			current: m{"boot_iso": "a ****** b ****** c"},
			wanted:  m{"boot_iso": "a 1 b 2 d"},
			want:    []ironic.Patch{add("boot_iso", "a 1 b 2 d")},
		},
		"masked in the middle, other middle": {
			current: m{"boot_iso": "a ****** b ****** c"},
			wanted:  m{"boot_iso": "a 1 x 2 c"},
			want:    []ironic.Patch{add("boot_iso", "a 1 x 2 c")},
		},
		"masked is no map": {
			current: m{"root_device": mask},
			wanted:  m{"root_device": m{"name": "s== /dev/sda"}},
			want:    []ironic.Patch{add("root_device", m{"name": "s== /dev/sda"})},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, InstanceInfoPatches(test.current, test.wanted, test.newAttempt)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
