package knot

import (
	"io"
	"math"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestTimeoutsNearTheEndOfTime: a limit so large that adding it to the time of day
// overflows never passes.
func TestTimeoutsNearTheEndOfTime(t *testing.T) {
	for _, limit := range []time.Duration{200 * 365 * 24 * time.Hour, 1 << 61, 1<<61 + 1, math.MaxInt64 - 1, math.MaxInt64} {
		t.Run(limit.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nc, r := pipeServer(t, &Server{
					Handler:     echoHandler,
					IdleTimeout: limit, HeadTimeout: limit, BodyTimeout: limit, WriteTimeout: limit,
				})
				for range 3 {
					for _, part := range []string{"PUT /echo HTTP/1.1\r\nHost: h\r\n", "Content-Length: 2\r\n\r\n", "a", "b"} {
						time.Sleep(time.Hour)
						testenv.Need(io.WriteString(nc, part))(t)
					}
					resp := testenv.Need(http.ReadResponse(r, nil))(t)
					if body, err := io.ReadAll(resp.Body); string(body) != "ab" || err != nil {
						t.Fatalf("body %q, %v", body, err)
					}
				}
			})
		})
	}
}

// TestLimitsNearTheEndOfInt: sums with a limit do not overflow either.
func TestLimitsNearTheEndOfInt(t *testing.T) {
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		sv := start(&Server{
			Handler: echoHandler, MaxConns: math.MaxInt, MaxBody: math.MaxInt64, MaxDrain: math.MaxInt64,
			MaxHead: math.MaxInt, MaxRequestLine: math.MaxInt, MaxFields: math.MaxInt,
		})
		p := sv.dial()
		for range 2 {
			p.send("PUT /a HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nabcde")
			if resp, body := p.response("PUT"); body != "PUT /a? h" || resp.Close {
				t.Fatalf("body %q, close %v", body, resp.Close)
			}
		}
	})
}
