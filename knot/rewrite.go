package knot

import (
	"strings"

	"github.com/capriccio-go/capriccio/knot/internal/h1"
)

// rewritten is the target that a request is served as in place of the client's.
type rewritten struct {
	target string // path and query
	path   []byte // as it stands in target
	query  string
}

// Rewrite has the rest of the handlers serve the request as if the client had asked for target: an absolute path with its
// escapes, and maybe a query behind a question mark. Path and Query are those of target from then on, the path clean as
// always, and so are a backend's, and URL for handlers of net/http. Target and the access log keep what was asked for. A target
// that is no path is an error with status 400.
func (x *Ctx) Rewrite(target string) error {
	path, query, _ := strings.Cut(target, "?")
	if path == "" || path[0] != '/' || strings.ContainsAny(target, " #") || h1.IndexControl(h1.Bytes(target), 0) < len(target) {
		return Status(400)
	}
	r := &rewritten{target: target, path: []byte(path), query: query}
	clean, _, fault := h1.CleanPath(r.path, nil)
	if fault != nil {
		return Status(fault.Status)
	}
	x.rewritten, x.path = r, clean
	return nil
}
