// SPDX-License-Identifier: Apache-2.0

package store

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"

	metal3 "github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// In etcd, the hardware details of a host are packed: their JSON, compressed, is in status.record.hardware.
// 6 kB become 400 bytes or so, which keeps etcd's log and database small, because each write of a status
// writes the whole host. A host is decoded without its hardware details, too, if an earlier version of it
// with the same packed ones is in memory.
//
// What tells machines apart remains in status.hardware, so that a version that cannot unpack them still recognizes two
// hosts that are one machine.

// hardwareDictionary has what the JSON of most hardware details has in common: the names of fields, and the
// features of processors. What was packed with a dictionary can only be unpacked with the same one, so it must
// never be changed. A better one gets the next ID; zstd records the ID with what it compresses.
//
//go:embed dictionaries/hardware-1.txt
var hardwareDictionary []byte

const hardwareDictionaryID = 1

// maxUnpackedHardware limits the memory, in bytes, that damaged data can take.
const maxUnpackedHardware = 64 << 20

// hardwarePacker is safe for concurrent use.
var hardwarePacker = sync.OnceValue(func() packer {
	compress, err := zstd.NewWriter(nil, zstd.WithEncoderDictRaw(hardwareDictionaryID, hardwareDictionary),
		zstd.WithEncoderCRC(false),                                 // nothing else in etcd has a checksum of its own
		zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true)) // hardware details are far smaller than the default of 8 MiB
	if err != nil {
		panic(err) // the options are constants
	}
	decompress, err := zstd.NewReader(nil, zstd.WithDecoderDictRaw(hardwareDictionaryID, hardwareDictionary),
		zstd.WithDecoderMaxMemory(maxUnpackedHardware), zstd.WithDecoderConcurrency(0))
	if err != nil {
		panic(err)
	}
	return packer{compress, decompress}
})

type packer struct {
	compress   *zstd.Encoder
	decompress *zstd.Decoder
}

func packHardware(details *metal3.HardwareDetails) ([]byte, error) {
	text, err := json.Marshal(details)
	if err != nil {
		return nil, err
	}
	return hardwarePacker().compress.EncodeAll(text, nil), nil
}

func unpackHardware(packed []byte) (*metal3.HardwareDetails, error) {
	text, err := hardwarePacker().decompress.DecodeAll(packed, nil)
	if err != nil {
		return nil, fmt.Errorf("decompressing hardware details: %w", err)
	}
	details := &metal3.HardwareDetails{}
	if err := json.Unmarshal(text, details); err != nil {
		return nil, fmt.Errorf("decoding hardware details: %w", err)
	}
	return details, nil
}

// identityOf returns what of the hardware details tells machines apart.
func identityOf(details *metal3.HardwareDetails) *metal3.HardwareDetails {
	identity := &metal3.HardwareDetails{SystemVendor: details.SystemVendor}
	for _, nic := range details.NIC {
		identity.NIC = append(identity.NIC, metal3.NIC{MAC: nic.MAC})
	}
	return identity
}
