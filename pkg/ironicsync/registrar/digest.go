// SPDX-License-Identifier: Apache-2.0

package registrar

import (
	"encoding/json"
	"fmt"
	"hash/fnv"

	"github.com/metal3-io/metal3-apiserver/pkg/ironicsync/deploy"
)

// Digest tells apart the settings that nodes are registered with: when they change, each node is
// registered again. It is the same in every process.
func Digest(ramdisk deploy.Ramdisk) string {
	encoded, err := json.Marshal(ramdisk)
	if err != nil {
		return "" // strings and maps of them never fail
	}
	digest := fnv.New32a()
	_, _ = digest.Write(encoded)
	return fmt.Sprintf("%08x", digest.Sum32())
}

// DigestFor returns the digest of the settings for a host with a conductor group: only the hosts whose group changes are registered again,
// and nothing changes for those without one.
func DigestFor(digest, group string) string {
	if group == "" {
		return digest
	}
	return digest + "/" + group
}
