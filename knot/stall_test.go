package knot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot/internal/tasks"
)

// TestStalledResponsesHoldLittle: a response over HTTP/2 whose client takes nothing of it holds hardly more than what has been
// gathered. All of it arrives when the client takes it, be it in small pieces.
func TestStalledResponsesHoldLittle(t *testing.T) {
	const requests, size, gathered = 30, 100_000, outSize
	root := layFiles(t, 1, func(int) int { return size })
	content := contentOf(0, size)
	native := func(h Handler) func(*testing.T) Handler { return func(*testing.T) Handler { return h } }
	files := func(c FilesConfig) func(*testing.T) Handler {
		return func(t *testing.T) Handler { return openWith(t, root, c).Handle }
	}
	for _, test := range []struct {
		name    string
		handler func(t *testing.T) Handler
		most    int64 // bytes of each
	}{
		{"a file", files(FilesConfig{CacheBytes: -1, OpenFiles: 10}), 2 * slimIn},
		{"a file in memory", files(FilesConfig{CacheBytes: 64 << 20}), 2 * slimIn},
		{"Send", native(func(x *Ctx) error { return x.Send(200, "text/plain", content) }), 2 * slimIn},
		{"a Write of a known length", native(func(x *Ctx) error {
			x.SetContentLength(size)
			return testenv.Err(x.Write(content))
		}), 2 * slimIn},
		{"a Write in a chunk", native(func(x *Ctx) error { return testenv.Err(x.Write(content)) }), 2 * slimIn},
		{"many Writes", native(func(x *Ctx) error { return writePieces(x, content, 1000) }), gathered + slimIn},
		{"a short Write, flushed", native(func(x *Ctx) error {
			x.Write(content[:100])
			x.Flush()
			return testenv.Err(x.Write(content[100:]))
		}), 2 * slimIn},
		{"net/http", native(AdaptHTTP(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(content) }))), inSize + slimIn},
	} {
		t.Run(test.name, func(t *testing.T) {
			everyMode(t, func(t *testing.T, start func(*Server) *served) {
				sv := start(&Server{H2C: true, Handler: test.handler(t)})
				before := tasks.Buffers.InUse()
				p := sv.framed(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
				for i := range requests {
					p.ask(i, "/f0")
				}
				for range requests {
					testenv.Equal(t, p.verdict(), "200", "a head")
				}
				most := before + requests*test.most + 3*outSize // of the connection
				testenv.Until(t, "the responses hold little", func() bool { return tasks.Buffers.InUse() <= most })
				p.takeAll(requests, content)
			})
		})
	}
}

// TestStalledWriteBesideRead: a goroutine reads the body while another waits again and again for a client that takes little. The
// race detector looks on.
func TestStalledWriteBesideRead(t *testing.T) {
	const steps = 2000
	read, checked := make(chan int64, 1), make(chan bool)
	sv := startServer(t, &Server{H2C: true, Handler: AdaptHTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		go func() {
			n, _ := io.Copy(io.Discard, r.Body)
			read <- n
		}()
		w.Write(make([]byte, outSize+steps))
		testenv.Equal(t, <-read, steps, "bytes of the body")
		close(checked)
	}))}, 0)
	p := sv.framed(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	p.headers(1, p.post(), endsHeaders)
	testenv.Equal(t, p.verdict(), "200")
	for i := range steps {
		p.WriteData(1, i == steps-1, []byte("x"))
		p.WriteWindowUpdate(1, 1)
	}
	p.WriteWindowUpdate(1, outSize)
	p.takeBytes(outSize + steps)
	<-checked // before the client leaves
}

// TestStalledWriteBesideLongTrailer: a long trailer line makes the read buffer grow meanwhile.
func TestStalledWriteBesideLongTrailer(t *testing.T) {
	const requests, steps = 30, 100
	long, checked := strings.Repeat("a", 2*inSize), make(chan bool, requests)
	sv := startServer(t, &Server{H2C: true, Handler: AdaptHTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		read := make(chan string, 1)
		go func() {
			io.Copy(io.Discard, r.Body)
			read <- r.Trailer.Get("X-Long")
		}()
		w.Write(make([]byte, outSize+steps))
		testenv.Equal(t, <-read == long, true, "the trailer has come")
		checked <- true
	}))}, 0)
	p := sv.framed(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	p.WriteWindowUpdate(0, 1<<30)
	for i := range uint32(requests) {
		id := 2*i + 1
		p.headers(id, p.post("trailer", "x-long"), endsHeaders)
		testenv.Equal(t, p.verdict(), "200")
		for step := range steps {
			if step == steps/2 {
				p.headers(id, p.head("x-long", long), wholeHead)
			}
			p.WriteWindowUpdate(id, 1)
		}
		p.WriteWindowUpdate(id, outSize)
		p.takeBytes(outSize + steps)
		<-checked // before the client leaves
	}
}

// writePieces writes content, so many bytes at a time.
func writePieces(w io.Writer, content []byte, size int) (err error) {
	for rest := content; len(rest) > 0 && err == nil; rest = rest[min(len(rest), size):] {
		_, err = w.Write(rest[:min(len(rest), size)])
	}
	return err
}

// takeBytes reads size bytes of the body of a response.
func (p *framePeer) takeBytes(size int) {
	p.t.Helper()
	for taken := 0; taken < size; {
		var n int
		if _, err := fmt.Sscanf(p.verdict(), "data %d", &n); err != nil {
			p.t.Fatalf("the response ends after %d bytes", taken)
		}
		taken += n
	}
}

// takeAll takes that many responses, whose windows are closed, some bytes at a time at first, and compares the bodies.
func (p *framePeer) takeAll(requests int, content []byte) {
	p.t.Helper()
	p.WriteWindowUpdate(0, 1<<30)
	for i := range requests {
		p.WriteWindowUpdate(uint32(2*i+1), uint32(1+i*997))
	}
	bodies := make([][]byte, requests)
	for ended := 0; ended < requests; {
		f, err := p.ReadFrame()
		testenv.Must(p.t, err)
		if away, ok := f.(*http2.GoAwayFrame); ok {
			p.t.Fatalf("the server ends the connection: %v, %q", away.ErrCode, away.DebugData())
		}
		data, ok := f.(*http2.DataFrame)
		if !ok {
			continue
		}
		i := int(data.StreamID / 2)
		if len(bodies[i]) == 0 {
			p.WriteWindowUpdate(data.StreamID, 1<<20)
		}
		if bodies[i] = append(bodies[i], data.Data()...); data.StreamEnded() {
			ended++
			if !bytes.Equal(bodies[i], content) {
				p.t.Errorf("response %d: %d bytes that are not those of the content", i, len(bodies[i]))
			}
		}
	}
}

// A trickle is a client that takes some bytes of a response, or sends some of a request, at a time.
type trickle struct {
	name  string
	bytes int
	every time.Duration
	kept  bool // it is served to the end
}

var trickles = []trickle{
	{"a byte every 8 s", 1, 8 * time.Second, false},
	{"a byte a second", 1, time.Second, false},
	{"a pause that goes on for too long", 0, time.Minute, false},
	{"as slow as may be", 2 * DefaultLeastRate, time.Second, true},
	{"a phone at 20 KB/s", 20_000, time.Second, true},
	{"pauses of 25 s in 20 KB/s", 500_000, 25 * time.Second, true},
}

// TestLeastRateOfResponses: a response of small writes ends when its client is slower than LeastRate, although each write
// ends in time.
func TestLeastRateOfResponses(t *testing.T) {
	for _, wire := range []struct {
		name    string
		adapted bool
		serve   func(*testing.T, *Server) *peer
	}{{"HTTP/1.1", false, pipePeer}, {"net/http", true, pipePeer}, {"TLS", false, pipePeerTLS}, {"net/http over TLS", true, pipePeerTLS}} {
		for _, test := range trickles {
			t.Run(wire.name+", "+test.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					over := make(chan error, 1)
					write := func(w io.Writer, flush func() error) error {
						var err error
						for end := time.Now().Add(4 * time.Minute); err == nil && time.Now().Before(end); {
							if _, err = w.Write(make([]byte, max(test.bytes, 1))); err == nil {
								err = flush()
							}
						}
						over <- err
						return err
					}
					handler := func(x *Ctx) error { return write(x, x.Flush) }
					if wire.adapted {
						handler = AdaptHTTP(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
							write(w, http.NewResponseController(w).Flush)
						}))
					}
					p := wire.serve(t, &Server{Handler: handler})
					p.send(req("GET /"))
					resp := p.head()
					ended := make(chan bool)
					go func() {
						defer close(ended)
						for left := 5 * time.Minute; left > 0; left -= test.every {
							time.Sleep(test.every)
							if _, err := io.CopyN(io.Discard, resp.Body, int64(test.bytes)); err != nil {
								return
							}
						}
					}()
					begin := time.Now()
					err := <-over
					if took := time.Since(begin); (err == nil) != test.kept || err != nil && (!errors.Is(err, os.ErrDeadlineExceeded) || took > 100*time.Second) {
						t.Errorf("after %v: %v", took, err)
					}
					p.nc.Close()
					<-ended
				})
			})
		}
	}
}

// TestLeastRateOfBodies: a client that trickles the body of a request gets 408, but not one that has been answered already:
// that may be a conversation.
func TestLeastRateOfBodies(t *testing.T) {
	for _, wire := range []struct {
		name  string
		early bool
		serve func(*testing.T, *Server) *peer
	}{{"HTTP/1.1", false, pipePeer}, {"answered early", true, pipePeer}, {"TLS", false, pipePeerTLS}, {"answered early over TLS", true, pipePeerTLS}} {
		for _, test := range trickles {
			t.Run(wire.name+", "+test.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					got := make(chan error, 1)
					p := wire.serve(t, &Server{LeastRate: DefaultLeastRate, Handler: func(x *Ctx) error {
						if wire.early {
							x.Flush()
						}
						_, err := io.Copy(io.Discard, x.Body())
						got <- err
						return err
					}})
					go io.WriteString(p.nc, chunkedHead)
					go io.Copy(io.Discard, p.r)
					ended := make(chan bool)
					go func() {
						defer close(ended)
						for left := 5 * time.Minute; left > 0; left -= test.every {
							time.Sleep(test.every)
							if n := test.bytes; n > 0 && testenv.Err(fmt.Fprintf(p.nc, "%x\r\n%s\r\n", n, strings.Repeat("x", n))) != nil {
								return
							}
						}
						io.WriteString(p.nc, "0\r\n\r\n")
					}()
					begin := time.Now()
					err := <-got
					kept := test.kept || wire.early && test.bytes > 0
					if took := time.Since(begin); (err == nil) != kept || err != nil && (!errors.Is(err, Status(408)) || took > 61*time.Second) {
						t.Errorf("after %v: %v", took, err)
					}
					p.nc.Close()
					<-ended
				})
			})
		}
	}
}

// TestLeastRateOfABodyThatIsDropped: a client may not keep its connection by a body that no handler reads.
func TestLeastRateOfABodyThatIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pipePeer(t, &Server{LeastRate: DefaultLeastRate, Handler: doneHandler})
		p.send(req("PUT /", "Content-Length: 200000"))
		p.want("200", "done")
		go io.Copy(io.Discard, p.r)
		begin := time.Now()
		for time.Since(begin) < 5*time.Minute && testenv.Err(p.nc.Write([]byte("x"))) == nil {
			time.Sleep(10 * time.Second)
		}
		testenv.AtMost(t, time.Since(begin), 71*time.Second, "closed after")
	})
}

// A client of gRPC sends messages when it has them, and gets no answer before the last one. A proxy reads them apart.
func TestLeastRateSparesMessages(t *testing.T) {
	for name, bodyOf := range map[string]func(x *Ctx) (io.Reader, error){
		"Body":      func(x *Ctx) (io.Reader, error) { return x.Body(), nil },
		"BodyApart": func(x *Ctx) (io.Reader, error) { return (*inner)(x).BodyApart() },
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { sparesMessages(t, bodyOf) }) })
	}
}

func sparesMessages(t *testing.T, bodyOf func(x *Ctx) (io.Reader, error)) {
	s := &Server{H2C: true, LeastRate: DefaultLeastRate, Handler: func(x *Ctx) error {
		body, err := bodyOf(x)
		if err != nil {
			return err
		}
		n, err := io.Copy(io.Discard, body)
		if err != nil {
			return err
		}
		return x.Send(200, "text/plain", fmt.Appendf(nil, "%d bytes", n))
	}}
	near, far := net.Pipe()
	go s.ServeConn(far)
	transport := testenv.PlainHTTP2(t)
	transport.DialContext = func(context.Context, string, string) (net.Conn, error) { return near, nil }
	body, messages := io.Pipe()
	go func() {
		for range 20 {
			time.Sleep(20 * time.Second)
			io.WriteString(messages, "message")
		}
		messages.Close()
	}()
	resp := testenv.Need((&http.Client{Transport: transport}).Post("http://h/", "application/grpc", body))(t)
	text := testenv.Need(io.ReadAll(resp.Body))(t)
	testenv.Equal(t, string(text), "140 bytes", "answer")
	transport.CloseIdleConnections()
	near.Close()
	s.Close()
}
