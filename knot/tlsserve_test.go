package knot

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot/internal/tasks"
	"github.com/capriccio-go/capriccio/knot/internal/tlsin"
	"github.com/capriccio-go/capriccio/netpoll"
)

// TestServesTLS: requests that come alone, in one record, in many small ones, and right behind the
// handshake; bodies of every size both ways.
func TestServesTLS(t *testing.T) {
	ca := testenv.NewCA(t)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		t.Run(tls.VersionName(version), func(t *testing.T) {
			everyMode(t, func(t *testing.T, start func(*Server) *served) {
				sv := start(&Server{TLS: ca.Server(t), Handler: echoHandler})
				config := ca.Client()
				config.MaxVersion = version
				p := sv.dialTLS(config)
				p.send(req("GET /a"))
				p.want("200", "GET /a? h")
				p.send(strings.Repeat(req("GET /b"), 300))
				for range 300 {
					p.want("200", "GET /b? h")
				}
				for _, ch := range req("GET /c") {
					p.send(string(ch))
				}
				p.want("200", "GET /c? h")
				for _, size := range []int{1, inSize - 1, inSize, inSize + 1, 3 * inSize, 1 << 20} {
					body := strings.Repeat("x", size)
					p.send(put("/echo", body))
					p.want("200", body)
				}
				// A head that is exactly as large as the read buffer, and another behind it.
				head := req("GET /d", "X: "+strings.Repeat("x", inSize-len(req("GET /d", "X: "))))
				p.send(head + req("GET /e"))
				p.want("200", "GET /d? h")
				p.want("200", "GET /e? h")
				done, failed, refused := sv.Handshakes()
				if done != 1 || failed+refused != 0 {
					t.Errorf("%d handshakes, %d failed, %d refused", done, failed, refused)
				}
			})
		})
	}
}

// TestTLSRequestBehindTheHandshake: the client's last message and its first request come in one
// piece. Nothing else will come to wake the connection.
func TestTLSRequestBehindTheHandshake(t *testing.T) {
	ca := testenv.NewCA(t)
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		sv := start(&Server{TLS: ca.Server(t), Handler: echoHandler})
		p := sv.dial()
		gather := &gatheringConn{Conn: p.nc, hold: 1} // after the hello
		p.nc = gather
		p.secure(ca.Client())
		testenv.Must(t, p.nc.(*tls.Conn).Handshake())
		p.send(req("GET /a"))
		gather.flush()
		p.want("200", "GET /a? h")
		p.send(req("GET /b") + req("GET /c"))
		p.send(req("GET /d"))
		gather.flush()
		for _, want := range []string{"GET /b? h", "GET /c? h", "GET /d? h"} {
			p.want("200", want)
		}
	})
}

// A gatheringConn holds back what is written after the first hold writes, until flush.
type gatheringConn struct {
	net.Conn
	hold int
	held []byte
}

func (c *gatheringConn) Write(p []byte) (int, error) {
	if c.hold > 0 {
		c.hold--
		return c.Conn.Write(p)
	}
	c.held = append(c.held, p...)
	return len(p), nil
}

func (c *gatheringConn) flush() {
	c.Conn.Write(c.held)
	c.held = nil
}

// TestTLSHandshakeIsAcknowledged: the client's last word of the handshake, as it may wait for that with its request.
func TestTLSHandshakeIsAcknowledged(t *testing.T) {
	ca := testenv.NewCA(t)
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		sv := start(&Server{TLS: ca.Server(t), Handler: func(x *Ctx) error {
			at := -1
			raw := testenv.Need(tlsin.Of(x.c.nc).Raw.(syscall.Conn).SyscallConn())(t)
			testenv.Check(t, raw.Control(func(fd uintptr) { at, _ = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_QUICKACK) }))
			return x.Send(200, "text/plain", strconv.AppendInt(nil, int64(at), 10))
		}})
		p := sv.dialTLS(ca.Client())
		p.send(req("GET /"))
		p.want("200", "1")
	})
}

// TestTLSConnectionsRestWithoutTask: neither before the handshake nor between requests.
func TestTLSConnectionsRestWithoutTask(t *testing.T) {
	checkLeaks(t)
	ca := testenv.NewCA(t)
	rt := startRuntime(t, 1)
	ln := testenv.Need(netpoll.Listen("tcp", "127.0.0.1:0"))(t)
	s := &Server{TLS: ca.Server(t), Handler: echoHandler}
	ended := make(chan error, 1)
	rt.Go(func() { ended <- s.Serve(ln) })
	sv := &served{Server: s, t: t, addr: ln.Addr().String()}
	tasks := func() (n int) {
		done := make(chan int)
		rt.Go(func() { done <- engine.CurrentLoop().Tasks() - 1 })
		return <-done
	}
	served := func() {
		p := sv.dialTLS(ca.Client())
		p.send(req("GET /a"))
		p.want("200", "GET /a? h")
	}
	served()
	var before int
	testenv.Until(t, "the task of the request ends", func() bool { // a moment after its answer
		before = tasks()
		return before <= 2
	})
	for range 20 {
		sv.dial()
		served()
	}
	testenv.Until(t, "there are no more tasks than before, and all connections", func() bool { return tasks() <= before && s.Stats().Conns == 41 })
	s.Close()
	<-ended
}

// TestTLSHijackGivesBuffersBack: a handler that closes the connection with records unread leaves no buffer in use behind,
// as they are counted.
func TestTLSHijackGivesBuffersBack(t *testing.T) {
	ca := testenv.NewCA(t)
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		before := tasks.Buffers.InUse()
		closed := make(chan struct{})
		sv := start(&Server{TLS: ca.Server(t), Handler: func(x *Ctx) error {
			nc, _, err := x.Hijack()
			if err == nil {
				nc.Write([]byte("go on\n"))
				nc.Read(make([]byte, 3))
				nc.Close()
				close(closed)
			}
			return err
		}})
		p := sv.dial()
		gather := &gatheringConn{Conn: p.nc, hold: 1000}
		p.nc = gather
		p.secure(ca.Client())
		p.send(req("GET /"))
		testenv.Got(p.r.ReadString('\n'))(t, "go on\n")
		gather.hold = 0 // both records in one piece
		p.send("one")
		p.send("two")
		gather.flush()
		<-closed
		testenv.Until(t, "no more buffers are in use than before", func() bool { return tasks.Buffers.InUse() <= before })
	})
}

// TestTLSHandlersOfNetHTTP: what they see of TLS, and a hijacked connection that rests.
func TestTLSHandlersOfNetHTTP(t *testing.T) {
	ca := testenv.NewCA(t)
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		sv := start(&Server{TLS: ca.Server(t), Handler: AdaptHTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/hijack" {
				fmt.Fprint(w, r.TLS.HandshakeComplete, " ", r.TLS.ServerName)
				return
			}
			nc, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				panic(err)
			}
			io.WriteString(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: upper\r\n\r\n")
			rw.Flush()
			at, rests := nc.(interface{ OnReadable(func()) error })
			var answer func()
			answer = func() {
				buf := make([]byte, 100)
				n, err := nc.Read(buf)
				if err != nil {
					nc.Close()
					return
				}
				nc.Write(bytes.ToUpper(buf[:n]))
				if !rests {
					answer()
				} else if at.OnReadable(answer) != nil {
					nc.Close()
				}
			}
			if !rests {
				answer()
			} else if err := at.OnReadable(answer); err != nil {
				panic(err)
			}
		}))})
		p := sv.dialTLS(ca.Client())
		p.send(req("GET /"))
		p.want("200", "true knot.test")
		p.send(req("GET /hijack", "Connection: Upgrade", "Upgrade: upper"))
		testenv.MustEqual(t, p.head().StatusCode, 101)
		for _, line := range []string{"one\n", "two\n", strings.Repeat("x", 199) + "\n"} {
			p.send(line)
			testenv.Got(p.r.ReadString('\n'))(t, strings.ToUpper(line))
		}
		p.nc.Close()
	})
}

// TestTLSRefusesClients: what is no TLS, what does not verify, and what comes while
// requests are refused.
func TestTLSRefusesClients(t *testing.T) {
	ca := testenv.NewCA(t)
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		sv := start(&Server{TLS: ca.Server(t), Handler: echoHandler})
		if got := sv.exchange(req("GET /")); !strings.Contains(got, "400 Bad Request") || !strings.Contains(got, "HTTPS") {
			t.Errorf("to plain HTTP: %q", got)
		}
		if got := sv.exchange("\x00\x01\x02\x03\x04\x05\x06\x07"); strings.Contains(got, "HTTP") {
			t.Errorf("to garbage: %q", got)
		}
		if _, err := tls.Dial("tcp", sv.addr, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}); err == nil {
			t.Error("TLS 1.1 was served")
		}
		p := sv.dialTLS(ca.Client())
		_, failed, _ := sv.Handshakes()
		testenv.AtLeast(t, failed, 2, "handshakes failed")
		testenv.Contains(t, sv.log.String(), `msg="knot: TLS handshake error"`)
		sv.Server.refusedAt.Store(sv.Server.clock.Now() + int64(time.Hour)) // still is
		_, err := tls.Dial("tcp", sv.addr, ca.Client())
		var alert tls.AlertError
		if !errors.As(err, &alert) && (err == nil || !strings.Contains(err.Error(), "internal error")) {
			t.Errorf("under overload: %v", err)
		}
		p.send(req("GET /a"))
		p.want("200", "GET /a? h")
		_, _, refused := sv.Handshakes()
		testenv.Equal(t, refused, 1, "handshakes refused")
		sv.Server.refusedAt.Store(0)
		sv.dialTLS(ca.Client())
	})
}

// TestTLSSlowHandshake: a client that begins and does not go on is cut off.
func TestTLSSlowHandshake(t *testing.T) {
	ca := testenv.NewCA(t)
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		sv := start(&Server{TLS: ca.Server(t), Handler: echoHandler, HeadTimeout: 30 * time.Millisecond})
		for _, begin := range []string{"\x16", "\x16\x03\x01\x02\x00\x01"} {
			p := sv.dial()
			p.send(begin)
			if _, err := io.ReadAll(p.r); err != nil && !strings.Contains(err.Error(), "reset") {
				t.Errorf("%q: %v", begin, err)
			}
		}
	})
}

// TestTLSWhileTheLoopStandsStill: a hello and a request are served that come in time, though their deadlines have
// passed when the loop looks.
func TestTLSWhileTheLoopStandsStill(t *testing.T) {
	ca := testenv.NewCA(t)
	patiently(t, 200*time.Millisecond, func(limit time.Duration) error {
		holds, release := make(chan bool, 1), make(chan bool)
		let := sync.OnceFunc(func() { close(release) })
		defer let()
		sv := guarded(t, &doorman{room: 9}, &Server{
			TLS: ca.Server(t), HeadTimeout: limit, IdleTimeout: limit,
			Handler: func(x *Ctx) error {
				if x.Path() == "/hold" {
					holds <- true
					for done := false; !done; {
						select {
						case <-release:
							done = true
						default: // a receive would be a wait, and the loop go on
						}
					}
				}
				return x.SendString(200, "text/plain", "served")
			},
		})
		fresh := sv.dial()
		fresh.secure(ca.Client())
		var shaken [2]*peer
		for i := range shaken {
			p := sv.dial()
			p.secure(ca.Client())
			if err := p.nc.(*tls.Conn).Handshake(); err != nil {
				return err // it took longer than the limit
			}
			shaken[i] = p
		}
		holder, old := shaken[0], shaken[1]
		served := func(p *peer) error {
			resp, err := http.ReadResponse(p.r, nil)
			if err != nil {
				return err
			}
			body, err := io.ReadAll(resp.Body)
			if err != nil || string(body) != "served" {
				return fmt.Errorf("%v, %q, %v", resp.Status, body, err)
			}
			return nil
		}
		io.WriteString(old.nc, req("GET /"))
		if err := served(old); err != nil {
			return err
		}
		io.WriteString(holder.nc, req("GET /hold"))
		select {
		case <-holds:
		case <-time.After(10 * limit):
			return errors.New("the loop was not held: the connection's time was over before")
		}
		io.WriteString(old.nc, req("GET /"))
		asked := make(chan error, 1)
		go func() { asked <- testenv.Err(io.WriteString(fresh.nc, req("GET /"))) }()
		<-time.After(2 * limit)
		let()
		if err := <-asked; err != nil {
			return fmt.Errorf("the hello: %w", err)
		}
		return errors.Join(served(fresh), served(old))
	})
}

// TestPanicInAHandshake ends its connection, is logged, and leaves the server as it was.
func TestPanicInAHandshake(t *testing.T) {
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		ca := testenv.NewCA(t)
		config := ca.Server(t)
		var panicked atomic.Bool
		config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
			if !panicked.Swap(true) {
				panic("no config")
			}
			return nil, nil
		}
		sv := start(&Server{TLS: config, Handler: doneHandler})
		p := sv.dial()
		p.secure(ca.Client())
		testenv.Equal(t, p.nc.(*tls.Conn).Handshake() != nil, true, "the handshake fails")
		sv.dialTLS(ca.Client()).ask(req("GET /"))
		for _, said := range []string{"a function of tls.Config panicked", "no config", "TestPanicInAHandshake"} {
			testenv.Contains(t, sv.log.String(), said, "the log")
		}
	})
}

// TestTLSClientsThatLeaveAtOnce cost no handshake: their hellos are looked at when they have left already.
func TestTLSClientsThatLeaveAtOnce(t *testing.T) {
	ca := testenv.NewCA(t)
	cert := testenv.Need(tls.X509KeyPair(ca.PEM(t, "knot.test")))(t)
	var computed atomic.Int32
	config := &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		computed.Add(1)
		return &cert, nil
	}}
	var held, release atomic.Bool
	defer release.Store(true)
	sv := startServer(t, &Server{TLS: config, Handler: func(x *Ctx) error {
		if x.Path() == "/hold" {
			for held.Store(true); !release.Load(); { // a receive would be a wait, and the loop go on
			}
		}
		return echoHandler(x)
	}}, 1)
	hello := helloOf(t, ca.Client())
	holder := sv.dialTLS(ca.Client())
	holder.send(req("GET /hold"))
	testenv.Until(t, "the loop is held", held.Load)
	const leavers = 100
	for i := range leavers {
		p := sv.dial()
		p.send(hello)
		if i%2 == 0 { // else it only ends its side
			p.nc.Close()
		} else {
			p.tcp.CloseWrite()
		}
	}
	release.Store(true)
	holder.want("200", "GET /hold? h")
	testenv.Until(t, "all have been looked at", func() bool {
		_, failed, _ := sv.Handshakes()
		return failed >= leavers
	})
	testenv.Equal(t, computed.Load(), 1, "handshakes computed")
	testenv.Equal(t, sv.log.String(), "", "the log")
	stays := sv.dialTLS(ca.Client())
	stays.send(req("GET /a"))
	stays.want("200", "GET /a? h")
}

// helloOf is the first that a client sends.
func helloOf(t *testing.T, config *tls.Config) string {
	t.Helper()
	ours, theirs := net.Pipe()
	defer ours.Close()
	go tls.Client(theirs, config).Handshake()
	hello := make([]byte, tlsin.RecordBuffer)
	return string(hello[:testenv.Need(ours.Read(hello))(t)])
}

// TestTLSWithoutCertificate: it is told before anybody connects.
func TestTLSWithoutCertificate(t *testing.T) {
	s := &Server{TLS: &tls.Config{}}
	for _, err := range []error{s.ListenAndServe(), s.Run(context.Background())} {
		testenv.ErrorIs(t, err, tlsin.ErrNoCertificate)
	}
}

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
		p := sv.dialTLS(ca.Client())
		p.send(put("/echo", strings.Repeat("x", 40000)))
		p.want("200", strings.Repeat("x", 40000))
	}
	held := func() (most int) { // -1: one still reads
		sv.conns.mu.Lock()
		defer sv.conns.mu.Unlock()
		for c := sv.conns.newest; c != nil; c = c.next {
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
