// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/metal3-io/metal3-apiserver/pkg/apis/metal3/v1alpha1"
)

// A body is decoded before anything checks it, and can take much more memory then: an empty element of a list has three bytes, and 200
// in memory. Flow control counts requests, so it does not bound that.
const (
	// maxBody is how large a body may be, in bytes. The largest object that the limits of sizes allow has 1.2 MiB.
	maxBody = 3 << 19
	// maxCopied is how many bytes the operations "copy" of a JSON patch may copy, which its size does not tell.
	maxCopied = 64 << 10
	// maxDecoded is how many bytes of bodies are handled at a time.
	maxDecoded = 4 * maxBody
	// leastPart is how many bytes a namespace may have handled even if others have all of that: as much as three small requests count,
	// so that a machine can be switched off while two namespaces send all they may.
	leastPart = maxDecoded / 64
	// maxReserved is how many bytes are handled for that reason beyond maxDecoded, in however many namespaces.
	maxReserved = maxDecoded / 2
	// leastBody is what a request counts at least: that of a patch of a few bytes decodes the object that it changes. It is not for
	// actions, which may wait long for a BMC: flow control bounds how many there are.
	leastBody = 32 << 10
	// yamlFactor is how much more YAML takes, of which a tree is made first.
	yamlFactor = 2
)

// bodies counts the bytes of the bodies that are being handled, by namespace.
type bodies struct {
	mu         sync.Mutex
	total      int64
	namespaces map[string]int64
}

// limitBodies answers writes 429 while too many bytes are being handled. A namespace may have as much as it leaves free, so that one has
// half of it at most, or leastPart. Clients of Kubernetes wait and try again by themselves.
func limitBodies(api http.Handler) http.Handler {
	b := &bodies{namespaces: map[string]int64{}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			api.ServeHTTP(w, r)
			return
		}
		refuse := func(err error) { responsewriters.ErrorNegotiated(err, Codecs, v1alpha1.SchemeGroupVersion, w, r) }
		if r.ContentLength > maxBody { // k8s.io/apiserver says the same when it has read so far
			refuse(apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", maxBody)))
			return
		}
		bytes, err := bytesOf(r)
		if err != nil {
			refuse(apierrors.NewBadRequest("the body cannot be read: " + err.Error()))
			return
		}
		var namespace string
		isAction := false
		if info, ok := request.RequestInfoFrom(r.Context()); ok {
			namespace, isAction = info.Namespace, info.Verb == "create" && info.Subresource != ""
		}
		if !isAction {
			bytes = max(bytes, leastBody)
		}
		if !b.take(namespace, bytes) {
			refuse(apierrors.NewTooManyRequests("too many large objects are being written at the moment: try again in a second, and write fewer at a time", 1))
			return
		}
		defer b.giveBack(namespace, bytes)
		api.ServeHTTP(w, r)
	})
}

// bytesOf returns what a request counts. The length of a body is not known before it ends if kubectl passes on its standard input, as for
// actions: one that ends soon is not a large one.
func bytesOf(r *http.Request) (int64, error) {
	bytes := r.ContentLength
	if bytes < 0 {
		beginning, err := io.ReadAll(io.LimitReader(r.Body, leastBody+1))
		if err != nil {
			return 0, err
		}
		r.Body = readAgain{io.MultiReader(strings.NewReader(string(beginning)), r.Body), r.Body}
		if bytes = int64(len(beginning)); bytes > leastBody {
			bytes = maxBody
		}
	}
	if strings.Contains(r.Header.Get("Content-Type"), "yaml") {
		bytes *= yamlFactor
	}
	return bytes, nil
}

// readAgain is a body whose beginning was read before.
type readAgain struct {
	io.Reader
	io.Closer
}

func (b *bodies) take(namespace string, bytes int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	left := maxDecoded - b.total // less than nothing if others have what is reserved
	if b.namespaces[namespace]+bytes > max(left, min(leastPart, left+maxReserved)) {
		return false
	}
	b.total += bytes
	b.namespaces[namespace] += bytes
	return true
}

func (b *bodies) giveBack(namespace string, bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.total -= bytes
	if b.namespaces[namespace] -= bytes; b.namespaces[namespace] == 0 {
		delete(b.namespaces, namespace)
	}
}
