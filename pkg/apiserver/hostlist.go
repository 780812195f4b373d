package apiserver

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"time"

	"github.com/klauspost/compress/s2"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/cache"

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
	encoded *cache.Expiring // of encodedHost, by types.UID
}

// encodedHost is the JSON of a host at a resourceVersion.
type encodedHost struct {
	resourceVersion string
	json            []byte // compressed by S2, to half its size; decompression takes about a microsecond
}

// encodedFor is how long the JSON of a host is kept, so that deleted hosts do not
// stay in memory.
const encodedFor = 10 * time.Minute

func newHostListEncoder(stock runtime.Serializer) *hostListEncoder {
	return &hostListEncoder{Serializer: stock, encoded: cache.NewExpiring()}
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
	var host []byte                                         // its memory is used again for the next host
	for i := range list.Items {
		var err error
		if host, err = e.encodeHost(&list.Items[i], host); err != nil {
			return err
		}
		if i > 0 {
			out.WriteByte(',')
		}
		if _, err := out.Write(host); err != nil {
			return err
		}
	}
	out.WriteString(end)
	return out.Flush()
}

// encodeHost returns the JSON of a host, in the memory of buffer if there is room for it.
func (e *hostListEncoder) encodeHost(host *v1alpha1.BareMetalHost, buffer []byte) ([]byte, error) {
	if known, ok := e.encoded.Get(host.UID); ok {
		if known := known.(encodedHost); known.resourceVersion == host.ResourceVersion {
			return s2.Decode(buffer[:cap(buffer)], known.json)
		}
	}
	text, err := json.Marshal(host)
	if err == nil {
		e.encoded.Set(host.UID, encodedHost{host.ResourceVersion, bytes.Clone(s2.EncodeBetter(nil, text))}, encodedFor)
	}
	return text, err
}
