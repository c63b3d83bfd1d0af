// Package requestid gives each request to a site an id, as the key request-id of command knot says: for logs, backends and
// clients. With it come the checks of W3C trace context.
package requestid

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/site"
	"github.com/capriccio-go/capriccio/internal/ownctx"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/proxy"
)

const (
	// maxLength is how long the id of a trusted proxy may be, in bytes: longer ones would fill logs.
	maxLength = 128
	// made is the length of an id of this server: 128 random bits, so that the ids of all servers differ.
	made = 2 * 16
)

// IDs gives the requests to a site their ids. It is fixed.
type IDs struct {
	header string
}

// New returns IDs that are in the header line with this name.
func New(header string) (*IDs, error) {
	if err := proxy.CheckHeader(header, ""); err != nil {
		return nil, err
	}
	if err := knot.CheckHeader(header, ""); err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "knot: "))
	}
	if slices.ContainsFunc([]string{"traceparent", "tracestate", "Authorization", "Cookie", "Set-Cookie"}, func(name string) bool {
		return strings.EqualFold(name, header)
	}) {
		return nil, fmt.Errorf("header %s says something else; want one like X-Request-Id", header)
	}
	return &IDs{header}, nil
}

// Prepare gives a request its id: that of a trusted proxy, or a new one. A second call changes nothing. It takes lines of
// W3C trace context that are malformed out of the request. It never parks.
func (ids *IDs) Prepare(x *knot.Ctx) {
	in := ownctx.Of(x).(inner)
	if in.RequestID() != "" {
		return
	}
	id := ""
	if given, alone := line(x, ids.header); alone && valid(given) && x.TrustPeers(knot.Trust{}) {
		id = string(given)
	} else {
		id = newID()
	}
	in.SetRequestID(id)
	in.KeepHeader(ids.header, id)
	if parent, alone := line(x, "traceparent"); parent != nil && !(alone && validParent(parent)) {
		in.PassHeader("traceparent", "")
		in.PassHeader("tracestate", "") // it means nothing without the other (W3C Trace Context, 3.3)
	} else if parent == nil && x.HeaderBytes("tracestate") != nil {
		in.PassHeader("tracestate", "")
	}
}

// Backend is proxy.Config.Header with the line of the id, unless a line of next, which may be nil, has its name.
func (ids *IDs) Backend(next func(x *knot.Ctx) []knot.Header) func(x *knot.Ctx) []knot.Header {
	return func(x *knot.Ctx) (all []knot.Header) {
		if next != nil {
			all = next(x)
		}
		if slices.ContainsFunc(all, func(h knot.Header) bool { return strings.EqualFold(h.Name, ids.header) }) {
			return all
		}
		return append(slices.Clip(all), knot.Header{Name: ids.header, Value: ownctx.Of(x).(inner).RequestID()})
	}
}

// line is the value of the first line with this name; nil: there is none. alone: there is no other.
func line(x *knot.Ctx, name string) (value []byte, alone bool) {
	for v := range site.HeaderValues(x, name) {
		if value != nil {
			return value, false
		}
		value = v[:len(v):len(v)]
		alone = true
	}
	return value, alone
}

// newID is a new id: 32 digits of crypto/rand.
func newID() string {
	var bits [made / 2]byte
	var text [made]byte
	rand.Read(bits[:])
	hex.Encode(text[:], bits[:])
	return string(text[:])
}

// valid reports whether the id of a trusted proxy is of a form that logs and programs take as it is: letters, digits and
// marks that need no quotes.
func valid(id []byte) bool {
	if len(id) == 0 || len(id) > maxLength {
		return false
	}
	for _, ch := range id {
		if !(ch >= '0' && ch <= '9' || ch >= 'a' && ch <= 'z' || ch >= 'A' && ch <= 'Z') && !strings.ContainsRune("-_.:+/=@~", rune(ch)) {
			return false
		}
	}
	return true
}

// validParent reports whether a traceparent is one of W3C Trace Context, 3.2: version, trace, span and flags. Of versions that
// are not known yet only the beginning is.
func validParent(text []byte) bool {
	const size = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	if len(text) < size || len(text) > maxLength {
		return false
	}
	version, trace, span := text[:2], text[3:35], text[36:52]
	for _, field := range [...][]byte{version, trace, span, text[53:size]} {
		for _, ch := range field {
			if !(ch >= '0' && ch <= '9' || ch >= 'a' && ch <= 'f') {
				return false
			}
		}
	}
	switch {
	case text[2] != '-' || text[35] != '-' || text[52] != '-', string(version) == "ff":
		return false
	case len(text) > size && (string(version) == "00" || text[size] != '-'):
		return false
	}
	return len(bytes.Trim(trace, "0")) > 0 && len(bytes.Trim(span, "0")) > 0
}

// inner has the methods of a *knot.Ctx that programs do not need, see internal/ownctx.
type inner interface {
	KeepHeader(name, value string)
	PassHeader(name, value string)
	RequestID() string
	SetRequestID(id string)
}
