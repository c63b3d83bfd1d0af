package knot

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestHTTP2Floods: what clients did to bring servers down. Each ends with its connection, and other
// clients are served meanwhile.
func TestHTTP2Floods(t *testing.T) {
	var running, most atomic.Int32
	release := make(chan bool)
	sv := startServer(t, &Server{H2C: true, MaxHead: 16 << 10, Handler: adaptBlocking(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/wait" {
			return
		}
		for n := running.Add(1); ; {
			m := most.Load()
			if n <= m || most.CompareAndSwap(m, n) {
				break
			}
		}
		<-release
		running.Add(-1)
	}))}, 1)
	floods := map[string]func(p *framePeer, i int) error{
		"rapid reset": func(p *framePeer, i int) error {
			id := uint32(2*i + 1)
			p.headers(id, p.head(":method", "GET", ":scheme", "http", ":path", "/wait", ":authority", "h"), wholeHead)
			return p.WriteRSTStream(id, http2.ErrCodeCancel)
		},
		"continuation": func(p *framePeer, i int) error {
			if i == 0 {
				p.headers(1, p.get(), 0)
			}
			return p.WriteContinuation(1, false, p.head(fmt.Sprintf("x%d", i), strings.Repeat("y", 1000)))
		},
		"streams beyond the limit": func(p *framePeer, i int) error {
			p.headers(uint32(2*i+1), p.head(":method", "GET", ":scheme", "http", ":path", "/wait", ":authority", "h"), wholeHead)
			return nil
		},
	}
	const unread = "pings whose answers nobody reads"
	pings := bytes.Repeat([]byte("\x00\x00\x08\x06\x00\x00\x00\x00\x0012345678"), 1000)
	floods[unread] = func(p *framePeer, i int) error { _, err := p.nc.Write(pings); return err }
	for name, flood := range floods {
		p := sv.frames(wholePre)
		p.WriteSettings()
		heard := make(chan string, 1)
		go func() {
			if name == unread {
				return
			}
			for {
				v := p.verdict()
				if v != "reset REFUSED_STREAM" && v != "200" || name == "streams beyond the limit" {
					heard <- v
					return
				}
			}
		}()
		said := ""
		for i := 0; said == "" && i < 200_000; i++ {
			err := flood(p, i)
			select {
			case said = <-heard:
			default:
				if err != nil && name == unread {
					said = err.Error()
				} else if err != nil {
					said = <-heard
				}
			}
		}
		if said == "" {
			t.Errorf("%s: nothing was said", name)
		}
		t.Log(name, said)
		p.nc.Close()
		other := sv.frames(wholePre)
		other.WriteSettings()
		other.headers(1, other.get(), wholeHead)
		if got := other.verdict(); got != "200" {
			t.Errorf("%s: another client got %s", name, got)
		}
		other.nc.Close()
	}
	if n := most.Load(); n > 2*DefaultMaxStreams {
		t.Errorf("%d handlers at a time of two connections", n)
	}
	close(release)
}

// TestHTTP2Farewell: a stop is announced by a GOAWAY that names no stream. What the client sends before it can know is served,
// and so is what comes on a connection that was accepted but had not spoken; then the last GOAWAY names the last one.
func TestHTTP2Farewell(t *testing.T) {
	began, goOn := make(chan bool), make(chan bool)
	sv := startServer(t, &Server{H2C: true, HeadTimeout: -1, Handler: func(x *Ctx) error {
		if x.Path() == "/slow" {
			offload(func() { began <- true; <-goOn })
		}
		return echoHandler(x)
	}}, 1)
	p := sv.frames(wholePre)
	p.WriteSettings()
	p.headers(1, p.head(":method", "GET", ":scheme", "http", ":path", "/slow", ":authority", "h"), wholeHead)
	<-began
	sv.limits.farewell = time.Minute
	late := sv.frames("") // accepted, silent
	for sv.Conns() < 2 {
		runtime.Gosched()
	}
	ended := make(chan error, 1)
	go func() { ended <- sv.Shutdown(context.Background()) }()
	var ping [8]byte
	expect := func(p *framePeer, want ...string) { // in any order
		t.Helper()
		for len(want) > 0 {
			f, err := p.ReadFrame()
			if err != nil {
				t.Fatalf("%v instead of %q", err, want)
			}
			got := ""
			switch f := f.(type) {
			case *http2.GoAwayFrame:
				got = fmt.Sprint("away ", f.LastStreamID, " ", f.ErrCode)
			case *http2.PingFrame:
				got, ping = "ping", f.Data
			case *http2.HeadersFrame:
				got = fmt.Sprint("answer ", f.StreamID)
			default:
				continue
			}
			at := slices.Index(want, got)
			if at < 0 {
				t.Fatalf("%s instead of %q", got, want)
			}
			want = slices.Delete(want, at, at+1)
		}
	}
	const farewell = "away 2147483647 NO_ERROR"
	expect(p, farewell, "ping")
	p.headers(3, p.get(), wholeHead) // was on its way
	expect(p, "answer 3")
	p.headers(5, p.get(), wholeHead)
	io.WriteString(late.nc, wholePre)
	late.WriteSettings()
	late.headers(1, late.get(), wholeHead)
	known := ping
	expect(late, farewell, "ping", "answer 1")
	late.WritePing(true, ping)
	expect(late, "away 1 NO_ERROR")
	late.nc.Close()
	p.WritePing(true, known)
	expect(p, "answer 5", "away 5 NO_ERROR")
	goOn <- true
	expect(p, "answer 1")
	p.nc.Close()
	testenv.Check(t, <-ended)
}
