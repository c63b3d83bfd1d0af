// Package httpcases is a table of raw HTTP/1.1 requests and of what a server may do with each, for tests and for bench.
//
// Which cases there are follows the lists of Http11Probe, h1spec and nginx-tests; what is allowed follows RFC 9110 and RFC 9112.
// A requirement by MUST or SHOULD leaves one kind of outcome; where the RFCs let a server choose, all are in the row.
//
// A case is sent on a connection of its own, with a last request behind it that asks for the connection to be closed. So
// the outcome says not only which statuses came, but where the server thinks that the case ended. The server has
// to answer what it takes by Handler, or to send the header line Seen as that does.
//
// Backend takes only requests that are right by the letter, for tests of proxies.
//
// The package never starts a server; its functions may be called from any goroutine, and block.
package httpcases

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
)

// BlankBeforeExtension is what net/http refuses although the grammar has it (RFC 9112, 7.1.1: BWS before the semicolon).
var BlankBeforeExtension = regexp.MustCompile("(?m)^[0-9A-Fa-f]+[ \t]+;")

// Letters of the lists that a case is in.
const (
	Http11Probe = 'P'
	H1spec      = 'S'
	NginxTests  = 'N'
	Own         = 'K'
)

// A Case is one row.
type Case struct {
	Name    string
	Lists   string // letters
	Section string // of the RFCs
	Send    string // may contain {etag}, {modified} of /file; at {pause} the client waits, at {100} for a response
	End     bool   // the client closes its side instead of sending a last request
	// Want are the outcomes that are allowed, with | between. The first is what Knot does. An outcome is the statuses of the responses and how
	// the connection went on: "keep" if the last request was answered, "close" if it was not. "refused" stands for an error status
	// or none, then "close".
	Want string
	// Head are lines that the first final response must have, or, after !, names that it must not have; \n between. Body is what
	// the server must have read, or, in FileCases, the body of the first response; not looked at if it is "".
	Head, Body string
}

// Seen is what a server puts into the header Seen of each response: method and path of the request, and the beginning of its body.
func Seen(method, path, body string) string {
	return fmt.Sprintf("%s %+q %+q", method, path, body[:min(len(body), 80)])
}

// Handler answers the cases with net/http. A request that it can't read gets 400. It is no proxy.
func Handler(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodConnect {
		http.Error(w, "no tunnels", http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		status := http.StatusBadRequest
		if errors.As(err, new(*http.MaxBytesError)) {
			status = http.StatusRequestEntityTooLarge
		}
		http.Error(w, err.Error(), status)
		return
	}
	w.Header().Set("Seen", Seen(r.Method, r.URL.Path, string(body)))
	if r.URL.Path == NoContent {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	io.WriteString(w, "seen\n")
}

// Paths of the cases: one that is answered 204, one that no case may bring a server to see, and that of the last request.
const (
	NoContent = "/204"
	smuggled  = "/smuggled"
	last      = "/last"
)

// File is what FilePath has to be for FileCases: 100 bytes.
var File = strings.Repeat("0123456789", 10)

const FilePath = "/file"
