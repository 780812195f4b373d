// SPDX-License-Identifier: Apache-2.0

package page

import (
	"embed"
	"io/fs"
	"net/http"
	"path"
)

//go:embed assets
var assetFiles embed.FS

// assetTypes are set here because those of mime.TypeByExtension depend on the machine.
var assetTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// newAssets serves the files of the page, which have no secrets: /, and /assets/NAME.
func newAssets() (http.Handler, error) {
	entries, err := fs.ReadDir(assetFiles, "assets")
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, entry := range entries {
		content, err := fs.ReadFile(assetFiles, "assets/"+entry.Name())
		if err != nil {
			return nil, err
		}
		files["/assets/"+entry.Name()] = content
	}
	files["/"] = files["/assets/index.html"]
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		content, ok := files[r.URL.Path]
		if !ok {
			refuse(w, http.StatusNotFound, "the page has no such file")
			return
		}
		extension := path.Ext(r.URL.Path)
		if r.URL.Path == "/" {
			extension = ".html"
		}
		w.Header().Set("Content-Type", assetTypes[extension])
		_, _ = w.Write(content) // the browser has gone
	}), nil
}
