package knot

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"testing"
	"time"

	capriccio "github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/netpoll"
)

// TestFilesOverTLS: what sendfile(2) can't send passes through a buffer.
func TestFilesOverTLS(t *testing.T) {
	cert, pool := testenv.SelfSigned()
	const size = 700_001
	root := layFiles(t, 2, func(i int) int { return 1000 + i*(size-1000) })
	for _, kept := range keepings {
		f := openWith(t, root, kept.config)
		rt := testenv.Need(capriccio.New(capriccio.WithLoops(2), capriccio.WithHoldLimit(-1), capriccio.WithoutRefusals()))(t)
		inner := testenv.Need(netpoll.Listen("tcp", "127.0.0.1:0"))(t)
		s := &Server{Handler: f.Serve}
		ended := make(chan error, 1)
		rt.Go(func() {
			ended <- s.Serve(tls.NewListener(inner, &tls.Config{Certificates: []tls.Certificate{cert}}))
		})
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
		client := &http.Client{Transport: transport, Timeout: time.Minute}
		for i, want := range []int{1000, size, 1000, size} {
			if _, got := testenv.Get(t, client, fmt.Sprintf("https://%s/f%d", inner.Addr(), i%2)); got != string(contentOf(i%2, want)) {
				t.Errorf("%s: %d bytes", kept.name, len(got))
			}
		}
		transport.CloseIdleConnections()
		s.Close()
		testenv.Equal(t, <-ended, ErrServerClosed, "Serve")
		testenv.Check(t, rt.Close())
	}
}
