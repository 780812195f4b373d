// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/json"
	"io"
	"sync"
	"time"
	"weak"

	"github.com/klauspost/compress/s2"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// hostListEncoder is the stock JSON serializer, except that it encodes a host only
// once for all lists that contain it at the same resourceVersion. To encode hosts is
// the largest part of what a list costs, and in a large fleet nearly all hosts are the
// same from one list to the next.
//
// It is for lists only: their items come from storage, where one resourceVersion has
// one content. The answer to a dry run carries a resourceVersion that is not its own.
type hostListEncoder struct {
	runtime.Serializer
	encoded *encodedHosts
}

// encodedHost is the JSON of a host at a resourceVersion: that of its hardware details, which are most of
// it and hardly ever change, and that of the rest, which is hardware in two. All versions of a host that
// share their hardware details share the JSON of these, too. Both are compressed by S2, to half the size;
// decompression takes about a microsecond.
type encodedHost struct {
	resourceVersion string
	rest            []byte
	hardwareAt      int // where the hardware details belong in the rest
	hardware        encodedHardware
}

// encodedHardware is the JSON of hardware details, which are never changed in place. The pointer does not keep
// them in memory.
type encodedHardware struct {
	of   weak.Pointer[v1alpha1.HardwareDetails]
	json []byte
}

// newHostListEncoder returns an encoder that keeps at most so many bytes of JSON.
func newHostListEncoder(stock runtime.Serializer, most int64) *hostListEncoder {
	return &hostListEncoder{Serializer: stock, encoded: newEncodedHosts(most)}
}

// Encode writes what the stock serializer writes, byte for byte.
func (e *hostListEncoder) Encode(obj runtime.Object, w io.Writer) error {
	list, ok := obj.(*v1alpha1.BareMetalHostList)
	if !ok || len(list.Items) == 0 {
		return e.Serializer.Encode(obj, w)
	}
	var frame bytes.Buffer
	if err := e.Serializer.Encode(&v1alpha1.BareMetalHostList{TypeMeta: list.TypeMeta, ListMeta: list.ListMeta, Items: []v1alpha1.BareMetalHost{}}, &frame); err != nil {
		return err
	}
	const end = "]}\n"
	// HTTP/2 makes a frame of each large write.
	out := bufio.NewWriterSize(w, 64<<10)
	out.Write(bytes.TrimSuffix(frame.Bytes(), []byte(end))) // an error comes back from each later Write
	var rest, hardware []byte                               // their memory is used again for the next host
	for i := range list.Items {
		if i > 0 {
			out.WriteByte(',')
		}
		host, err := e.encodeHost(&list.Items[i])
		if err == nil {
			rest, err = s2.Decode(rest[:cap(rest)], host.rest)
		}
		if err == nil {
			hardware, err = s2.Decode(hardware[:cap(hardware)], host.hardware.json)
		}
		if err != nil {
			return err
		}
		out.Write(rest[:host.hardwareAt])
		out.Write(hardware)
		if _, err := out.Write(rest[host.hardwareAt:]); err != nil {
			return err
		}
	}
	out.WriteString(end)
	return out.Flush()
}

// encodeHost returns the JSON of a host, as it is known or made anew.
func (e *hostListEncoder) encodeHost(host *v1alpha1.BareMetalHost) (encodedHost, error) {
	known, ok := e.encoded.get(host.UID)
	if ok && known.resourceVersion == host.ResourceVersion {
		return known, nil
	}
	rest, hardwareAt, err := encodeRest(host)
	if err != nil {
		return encodedHost{}, err
	}
	made := encodedHost{host.ResourceVersion, compress(rest), hardwareAt, known.hardware}
	if details := host.Status.HardwareDetails; known.hardware.of != weak.Make(details) || known.hardware.json == nil {
		made.hardware = encodedHardware{of: weak.Make(details)}
		var text []byte
		if details != nil {
			if text, err = json.Marshal(details); err != nil {
				return encodedHost{}, err
			}
		}
		made.hardware.json = compress(text)
	}
	e.encoded.keep(host.UID, made)
	return made, nil
}

// encodeRest returns the JSON of a host without its hardware details, and where these belong in it.
func encodeRest(host *v1alpha1.BareMetalHost) (rest []byte, hardwareAt int, err error) {
	if host.Status.HardwareDetails == nil {
		rest, err = json.Marshal(host)
		return rest, len(rest), err
	}
	marked := *host
	marked.Status.HardwareDetails = hardwareMark
	text, err := json.Marshal(&marked)
	if err != nil {
		return nil, 0, err
	}
	before, after, _ := bytes.Cut(text, hardwareMarkJSON) // before is the beginning of text
	return append(before, after...), len(before), nil
}

// hardwareMark marks where in the JSON of a host its hardware details are. Nobody can have written it into a host,
// because it is another one in each process.
var (
	hardwareMark     = &v1alpha1.HardwareDetails{Hostname: rand.Text()}
	hardwareMarkJSON = func() []byte {
		text, err := json.Marshal(hardwareMark)
		utilruntime.Must(err) // it is a constant but for the hostname
		return text
	}()
)

// compress returns text compressed, in no more memory than it needs.
func compress(text []byte) []byte { return bytes.Clone(s2.EncodeBetter(nil, text)) }

// encodedFor is after how long the JSON of a host that is in no list any more, such as a deleted one, is dropped; at
// the latest after twice that.
const encodedFor = 5 * time.Minute

// encodedHosts keeps the JSON of hosts that lists contain, up to a number of bytes. When these are too many, it drops
// any of them. An LRU cache would be of no use to a list of more hosts than there is space for: the list always needs
// next what was used longest ago.
type encodedHosts struct {
	most int64 // bytes

	mu    sync.Mutex
	byUID map[types.UID]*keptHost
	bytes int64     // the sum of their sizes
	swept time.Time // when those that were in no list were dropped
}

type keptHost struct {
	encodedHost
	listed bool // since encodedHosts.swept
}

func newEncodedHosts(most int64) *encodedHosts {
	return &encodedHosts{most: most, byUID: map[types.UID]*keptHost{}, swept: time.Now()}
}

func (h *encodedHosts) get(uid types.UID) (encodedHost, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Since(h.swept) >= encodedFor {
		h.sweep()
	}
	kept, ok := h.byUID[uid]
	if !ok {
		return encodedHost{}, false
	}
	kept.listed = true
	return kept.encodedHost, true
}

func (h *encodedHosts) keep(uid types.UID, host encodedHost) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop(uid)
	h.byUID[uid] = &keptHost{host, true}
	h.bytes += host.size()
	for other := range h.byUID { // in random order
		if h.bytes <= h.most {
			break
		}
		h.drop(other)
	}
}

// sweep drops the hosts that were in no list since the last time.
func (h *encodedHosts) sweep() {
	h.swept = time.Now()
	for uid, kept := range h.byUID {
		if !kept.listed {
			h.drop(uid)
		}
		kept.listed = false
	}
}

func (h *encodedHosts) drop(uid types.UID) {
	if kept, ok := h.byUID[uid]; ok {
		h.bytes -= kept.size()
		delete(h.byUID, uid)
	}
}

// size is how many bytes of memory an encoded host takes, with some for its place in the map and its UID.
func (h encodedHost) size() int64 { return int64(cap(h.rest)+cap(h.hardware.json)) + 256 }
