// SPDX-License-Identifier: Apache-2.0

package ironicsim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/metal3-io/metal3-apiserver/test/ironicsim/fsm"
)

// apiError is an error in one of the two shapes that Ironic's API gives it.
// Both are JSON inside a string inside JSON.
type apiError struct {
	code int
	// text is the faultstring, or the description of a framework error.
	text string
	// framework errors come from the web framework (unknown URL, version), all
	// others from Ironic itself.
	framework bool
}

func (e *apiError) Error() string { return e.text }

// asAPIError is an error as an answer of the API. What is neither Ironic's own nor
// a refusal of its state machine has the status otherwise.
func asAPIError(err error, otherwise int) *apiError {
	var answer *apiError
	if errors.As(err, &answer) {
		return answer
	}
	var refused *fsm.Refusal
	if errors.As(err, &refused) {
		return &apiError{code: refused.Status, text: refused.Text}
	}
	return fault(otherwise, "%v", err)
}

// body has the spaces that Python puts in, too.
func (e *apiError) body() []byte {
	inner := ""
	if e.framework {
		inner = fmt.Sprintf(`{"code": %d, "title": %s, "description": %s}`, e.code, quoteJSON(http.StatusText(e.code)), quoteJSON(e.text))
	} else {
		faultcode := "Client"
		if e.code >= 500 {
			faultcode = "Server"
		}
		inner = fmt.Sprintf(`{"faultcode": "%s", "faultstring": %s, "debuginfo": null}`, faultcode, quoteJSON(e.text))
	}
	return []byte(`{"error_message": ` + quoteJSON(inner) + `}`)
}

// quoteJSON is a JSON string without the escapes that Go adds for HTML.
func quoteJSON(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return `""` // a string always encodes
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func fault(code int, format string, args ...any) *apiError {
	return &apiError{code: code, text: fmt.Sprintf(format, args...)}
}

func badRequest(format string, args ...any) *apiError {
	return fault(http.StatusBadRequest, format, args...)
}

func conflict(format string, args ...any) *apiError {
	return fault(http.StatusConflict, format, args...)
}

func abort(code int, description string) *apiError {
	return &apiError{code: code, text: description, framework: true}
}

// The errors below have the same text wherever Ironic raises them.

func errNotAcceptable() *apiError {
	return fault(http.StatusNotAcceptable, "Request not acceptable.")
}

func errNodeNotFound(ident string) *apiError {
	return fault(http.StatusNotFound, "Node %s could not be found.", ident)
}

// errNotFound is Ironic's way not to tell what exactly was not found.
func errNotFound() *apiError {
	return fault(http.StatusNotFound, "Resource could not be found.")
}

func errUnsupported(driver, extension string) *apiError {
	return badRequest("Driver %s does not support %s (disabled or not implemented).", driver, extension)
}

func errNoWorker() *apiError {
	return fault(http.StatusServiceUnavailable, "Requested action cannot be performed due to lack of free conductor workers.")
}

// errConductorDown is what the API process answers when the conductor's
// JSON-RPC port does not.
func errConductorDown() *apiError {
	return fault(http.StatusInternalServerError, "Unable to establish connection to http://127.0.0.1:8089: "+
		"HTTPConnectionPool(host='127.0.0.1', port=8089): Max retries exceeded with url: / "+
		"(Caused by NewConnectionError('<urllib3.connection.HTTPConnection object>: "+
		"Failed to establish a new connection: [Errno 111] ECONNREFUSED'))")
}

// mustJSON encodes what is known to be encodable.
func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("ironicsim: encoding %T: %v", v, err))
	}
	return b
}

// pythonError is an error whose text is Ironic's, a driver's or a Python
// library's own; it ends up in last_error or inside a faultstring.
func pythonError(format string, args ...any) error {
	return &apiError{code: http.StatusInternalServerError, text: fmt.Sprintf(format, args...)}
}
