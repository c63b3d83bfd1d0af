package knot

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot/internal/tlsin"
)

// TestTLSConnectionsRestWithoutInput: with ShedTLSBuffers buffers are let go of where a connection begins to rest, and one
// does that whose last Read has ended where its record does; without it crypto/tls keeps them.
func TestTLSConnectionsRestWithoutInput(t *testing.T) {
	for _, sheds := range []bool{true, false} {
		t.Run(fmt.Sprint("sheds=", sheds), func(t *testing.T) { restOverTLS(t, sheds) })
	}
}

func restOverTLS(t *testing.T, sheds bool) {
	ca := testenv.NewCA(t)
	sv := startServer(t, &Server{TLS: ca.Server(t), ShedTLSBuffers: sheds, Handler: echoHandler, IdleTimeout: time.Hour, HeadTimeout: time.Hour, BodyTimeout: time.Hour}, 1)
	for range 5 {
		nc, r := sv.dialTLS(ca.Client())
		io.WriteString(nc, "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 40000\r\n\r\n"+strings.Repeat("x", 40000))
		wantBody(t, r, strings.Repeat("x", 40000))
	}
	held := func() (most int) { // -1: one still reads
		sv.mu.Lock()
		defer sv.mu.Unlock()
		for c := sv.first; c != nil; c = c.next {
			one := tlsin.Of(c.nc).Held()
			if one < 0 {
				return one
			}
			most = max(most, one)
		}
		return most
	}
	var most int
	testenv.Until(t, "the connections rest", func() bool { // a moment after their answers
		most = held()
		return most >= 0 && (!sheds || most <= tlsin.KeptInput)
	})
	t.Logf("the connection that holds most holds %d bytes", most)
	if !sheds {
		testenv.AtLeast(t, most, tlsin.KeptInput+1, "bytes that a connection holds")
	}
}
