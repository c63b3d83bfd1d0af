package proxy

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/ownctx"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
)

// TestPassed: over each wire a backend gets the lines that handlers have passed, unless Config.Header says others, and nothing of
// the client's under these names.
func TestPassed(t *testing.T) {
	for wire, c := range wires(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, r.Header["X-Forwarded-User"], r.Header["X-None"], r.Header["X-Twice"], r.Header["X-Rule"], r.Header["X-Other"], r.Trailer)
	}) {
		for _, rule := range []string{"", "rule"} {
			want := "[alice] [] [last  X-None: injected] [passed] [o] map["
			if rule != "" {
				want = strings.Replace(want, "passed", rule, 1)
				c.Header = func(*knot.Ctx) []knot.Header { return []knot.Header{{Name: "x-rule", Value: rule}} }
			}
			f := serve(t, c, 1, func(s *knot.Server) {
				next := s.Handler
				s.Handler = func(x *knot.Ctx) error {
					inner := ownctx.Of(x).(interface{ PassHeader(name, value string) })
					inner.PassHeader("x-twice", "first")
					inner.PassHeader("X-Twice", "last\r\nX-None: injected")
					inner.PassHeader("X-Forwarded-User", "alice")
					inner.PassHeader("X-None", "")
					inner.PassHeader("X-Rule", "passed")
					testenv.Equal(t, x.Header("X-Rule"), "", "in the header of the request")
					return next(x)
				}
			})
			const lines = " HTTP/1.1\r\nHost: h\r\nx-forwarded-USER: root\r\nX-None: root\r\nX-TWICE: root\r\nX-Twice: root\r\nX-Other: o\r\nX_None: root\r\n" +
				"X-Rule: root\r\nConnection: close, X-Forwarded-User, X-Twice, X-Rule\r\n"
			for _, text := range []string{
				"GET /" + lines + "\r\n",
				"POST /" + lines + "Transfer-Encoding: chunked\r\nTrailer: X-None, X-Forwarded-User, X-Rule\r\n\r\n1\r\na\r\n" +
					"0\r\nX-None: root\r\nX-Forwarded-User: root\r\nX-Rule: root\r\n\r\n",
			} {
				_, got := f.ask(text)
				testenv.Equal(t, strings.HasPrefix(got, want) && !strings.Contains(got, "root"), true, "%s: %s", wire, got)
			}
		}
	}
}
