// SPDX-License-Identifier: Apache-2.0

package bmcsim

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
)

// The user name and password for the OCI registry.
const (
	RegistryUser     = "puller"
	RegistryPassword = "registry-password"
)

// registry is an OCI registry with disk images, over HTTPS. All requests need a token, which a client
// gets for RegistryUser and RegistryPassword.
type registry struct {
	server *httptest.Server
	token  string

	mu sync.Mutex
	// content has the manifests and images by digest.
	content map[string][]byte
}

const manifestType = "application/vnd.oci.image.manifest.v1+json"

func startRegistry() *registry {
	r := &registry{token: rand.Text(), content: map[string][]byte{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /token", r.giveToken)
	mux.HandleFunc("GET /v2/{$}", r.guard(func(http.ResponseWriter, *http.Request) {}))
	mux.HandleFunc("GET /v2/images/{name}/manifests/{digest}", r.guard(r.serve))
	mux.HandleFunc("GET /v2/images/{name}/blobs/{digest}", r.guard(r.serve))
	r.server = httptest.NewTLSServer(mux)
	return r
}

// AddOCIImage adds a raw disk image to the registry, and returns the oci:// URL of its manifest.
func (s *Sim) AddOCIImage(name string, image []byte) string {
	digest := "sha256:" + sha256Of(image)
	manifest, err := json.Marshal(object{
		"schemaVersion": 2, "mediaType": manifestType,
		"layers": []object{{"mediaType": "application/octet-stream", "size": len(image), "digest": digest}},
	})
	if err != nil {
		panic(err) // cannot happen: it only has strings and numbers
	}
	r := s.registry
	manifestDigest := "sha256:" + sha256Of(manifest)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.content[digest], r.content[manifestDigest] = slices.Clone(image), manifest
	return "oci://" + r.server.Listener.Addr().String() + "/images/" + name + "@" + manifestDigest
}

// giveToken accepts the user name and the password either separately or, as Ironic 29 sends them, joined
// by a colon as a password without a user name.
func (r *registry) giveToken(w http.ResponseWriter, req *http.Request) {
	user, password, _ := req.BasicAuth()
	if (user != RegistryUser || password != RegistryPassword) && (user != "" || password != RegistryUser+":"+RegistryPassword) {
		http.Error(w, "wrong user or password", http.StatusUnauthorized)
		return
	}
	respond(w, http.StatusOK, object{"token": r.token})
}

func (r *registry) guard(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Authorization") != "Bearer "+r.token {
			w.Header().Set("WWW-Authenticate", `Bearer realm="`+r.server.URL+`/token",service="bmcsim"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		next(w, req)
	}
}

func (r *registry) serve(w http.ResponseWriter, req *http.Request) {
	digest := req.PathValue("digest")
	r.mu.Lock()
	content, ok := r.content[digest]
	r.mu.Unlock()
	if !ok {
		http.NotFound(w, req)
		return
	}
	w.Header().Set("Content-Type", manifestType)
	w.Header().Set("Docker-Content-Digest", digest)
	w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	_, _ = w.Write(content)
}
