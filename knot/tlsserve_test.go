package knot

import (
	"bufio"
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

	capriccio "github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot/internal/tasks"
	"github.com/capriccio-go/capriccio/knot/internal/tlsin"
	"github.com/capriccio-go/capriccio/netpoll"
)

// dialTLS connects a client with its handshake done.
func (sv *served) dialTLS(config *tls.Config) (*tls.Conn, *bufio.Reader) {
	sv.t.Helper()
	nc := testenv.Need(tls.Dial("tcp", sv.addr, config))(sv.t)
	sv.t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(time.Minute))
	return nc, bufio.NewReader(nc)
}

func wantBody(t *testing.T, r *bufio.Reader, want string) {
	t.Helper()
	resp := testenv.Need(http.ReadResponse(r, nil))(t)
	body, err := io.ReadAll(resp.Body)
	if err != nil || string(body) != want {
		t.Fatalf("%d bytes of body (%.60q), %v; want %.60q", len(body), body, err, want)
	}
}

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
				nc, r := sv.dialTLS(config)
				io.WriteString(nc, "GET /a HTTP/1.1\r\nHost: h\r\n\r\n")
				wantBody(t, r, "GET /a? h")
				io.WriteString(nc, strings.Repeat("GET /b HTTP/1.1\r\nHost: h\r\n\r\n", 300))
				for range 300 {
					wantBody(t, r, "GET /b? h")
				}
				for _, ch := range "GET /c HTTP/1.1\r\nHost: h\r\n\r\n" {
					io.WriteString(nc, string(ch))
				}
				wantBody(t, r, "GET /c? h")
				for _, size := range []int{1, inSize - 1, inSize, inSize + 1, 3 * inSize, 1 << 20} {
					body := strings.Repeat("x", size)
					fmt.Fprintf(nc, "PUT /echo HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s", size, body)
					wantBody(t, r, body)
				}
				// A head that is exactly as large as the read buffer, and another behind it.
				head := "GET /d HTTP/1.1\r\nHost: h\r\nX: "
				head += strings.Repeat("x", inSize-len(head)-4) + "\r\n\r\n"
				io.WriteString(nc, head+"GET /e HTTP/1.1\r\nHost: h\r\n\r\n")
				wantBody(t, r, "GET /d? h")
				wantBody(t, r, "GET /e? h")
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
		raw := testenv.Need(net.Dial("tcp", sv.addr))(t)
		raw.SetDeadline(time.Now().Add(time.Minute))
		gather := &gatheringConn{Conn: raw}
		nc := tls.Client(gather, ca.Client())
		defer nc.Close()
		gather.hold = 1 // after the hello
		testenv.Must(t, nc.Handshake())
		io.WriteString(nc, "GET /a HTTP/1.1\r\nHost: h\r\n\r\n")
		gather.flush()
		r := bufio.NewReader(nc)
		wantBody(t, r, "GET /a? h")
		gather.hold = 0
		io.WriteString(nc, "GET /b HTTP/1.1\r\nHost: h\r\n\r\nGET /c HTTP/1.1\r\nHost: h\r\n\r\n")
		io.WriteString(nc, "GET /d HTTP/1.1\r\nHost: h\r\n\r\n")
		gather.flush()
		for _, want := range []string{"GET /b? h", "GET /c? h", "GET /d? h"} {
			wantBody(t, r, want)
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
		nc, r := sv.dialTLS(ca.Client())
		io.WriteString(nc, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
		wantBody(t, r, "1")
	})
}

// TestTLSConnectionsRestWithoutTask: neither before the handshake nor between requests.
func TestTLSConnectionsRestWithoutTask(t *testing.T) {
	checkLeaks(t)
	ca := testenv.NewCA(t)
	rt := testenv.Need(capriccio.New(capriccio.WithLoops(1), capriccio.WithHoldLimit(-1), capriccio.WithoutRefusals()))(t)
	defer rt.Close()
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
	first, r := sv.dialTLS(ca.Client())
	io.WriteString(first, "GET /a HTTP/1.1\r\nHost: h\r\n\r\n")
	wantBody(t, r, "GET /a? h")
	var before int
	for tick := time.Now(); ; { // the task of the request ends a moment after its answer
		if before = tasks(); before <= 2 || time.Since(tick) > time.Minute {
			break
		}
	}
	for range 20 {
		sv.dial()
		nc, r := sv.dialTLS(ca.Client())
		io.WriteString(nc, "GET /a HTTP/1.1\r\nHost: h\r\n\r\n")
		wantBody(t, r, "GET /a? h")
	}
	for begin := time.Now(); tasks() > before || s.Conns() != 41; {
		if time.Since(begin) > time.Minute {
			t.Fatalf("%d tasks, %d before; %d connections", tasks(), before, s.Conns())
		}
	}
	s.Close()
	<-ended
}

// TestTLSShutdown: idle connections are closed, one with a request under way is answered first.
func TestTLSShutdown(t *testing.T) {
	ca := testenv.NewCA(t)
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		began, goOn := make(chan bool), make(chan bool)
		sv := start(&Server{TLS: ca.Server(t), Handler: slowly(began, goOn)})
		idle, idleIn := sv.dialTLS(ca.Client())
		io.WriteString(idle, "GET /a HTTP/1.1\r\nHost: h\r\n\r\n")
		wantBody(t, idleIn, "GET /a? h")
		busy, busyIn := sv.dialTLS(ca.Client())
		io.WriteString(busy, "GET /slow HTTP/1.1\r\nHost: h\r\n\r\n")
		<-began
		ended := make(chan error, 1)
		go func() { ended <- sv.Shutdown(context.Background()) }()
		if _, err := idleIn.ReadByte(); err != io.EOF {
			t.Errorf("idle: %v, want the end, with an alert before", err)
		}
		close(goOn)
		wantBody(t, busyIn, "GET /slow? h")
		if _, err := busyIn.ReadByte(); err != io.EOF {
			t.Errorf("busy: %v, want the end", err)
		}
		busy.Close()
		testenv.Check(t, <-ended)
	})
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
		raw := testenv.Need(net.Dial("tcp", sv.addr))(t)
		gather := &gatheringConn{Conn: raw, hold: 1000}
		nc := tls.Client(gather, ca.Client())
		defer raw.Close()
		io.WriteString(nc, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
		if line, err := bufio.NewReader(nc).ReadString('\n'); line != "go on\n" {
			t.Fatal(line, err)
		}
		gather.hold = 0 // both records in one piece
		io.WriteString(nc, "one")
		io.WriteString(nc, "two")
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
				if rests {
					if at.OnReadable(answer) != nil {
						nc.Close()
					}
					return
				}
				answer()
			}
			if rests {
				err = at.OnReadable(answer)
				if err != nil {
					panic(err)
				}
				return
			}
			answer()
		}))})
		nc, r := sv.dialTLS(ca.Client())
		io.WriteString(nc, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
		wantBody(t, r, "true knot.test")
		io.WriteString(nc, "GET /hijack HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: upper\r\n\r\n")
		if resp, err := http.ReadResponse(r, nil); err != nil || resp.StatusCode != 101 {
			t.Fatal(resp, err)
		}
		for _, line := range []string{"one\n", "two\n", strings.Repeat("x", 199) + "\n"} {
			io.WriteString(nc, line)
			if got, err := r.ReadString('\n'); got != strings.ToUpper(line) {
				t.Fatalf("got %q, %v", got, err)
			}
		}
		nc.Close()
	})
}

// TestTLSRefusesClients: what is no TLS, what does not verify, and what comes while
// requests are refused.
func TestTLSRefusesClients(t *testing.T) {
	ca := testenv.NewCA(t)
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		sv := start(&Server{TLS: ca.Server(t), Handler: echoHandler})
		if got := sv.exchange("GET / HTTP/1.1\r\nHost: h\r\n\r\n"); !strings.Contains(got, "400 Bad Request") || !strings.Contains(got, "HTTPS") {
			t.Errorf("to plain HTTP: %q", got)
		}
		if got := sv.exchange("\x00\x01\x02\x03\x04\x05\x06\x07"); strings.Contains(got, "HTTP") {
			t.Errorf("to garbage: %q", got)
		}
		if _, err := tls.Dial("tcp", sv.addr, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}); err == nil {
			t.Error("TLS 1.1 was served")
		}
		nc, r := sv.dialTLS(ca.Client())
		if _, failed, _ := sv.Handshakes(); failed < 2 {
			t.Errorf("%d handshakes failed", failed)
		}
		testenv.Contains(t, sv.log.String(), `msg="knot: TLS handshake error"`)
		sv.Server.refusedAt.Store(sv.Server.clock.Now() + int64(time.Hour)) // still is
		_, err := tls.Dial("tcp", sv.addr, ca.Client())
		var alert tls.AlertError
		if !errors.As(err, &alert) && (err == nil || !strings.Contains(err.Error(), "internal error")) {
			t.Errorf("under overload: %v", err)
		}
		io.WriteString(nc, "GET /a HTTP/1.1\r\nHost: h\r\n\r\n")
		wantBody(t, r, "GET /a? h")
		if _, _, refused := sv.Handshakes(); refused != 1 {
			t.Errorf("%d handshakes refused", refused)
		}
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
		sv := &served{t: t, addr: guarded(t, &doorman{room: 9}, &Server{
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
		})}
		raw := testenv.Need(net.Dial("tcp", sv.addr))(t)
		defer raw.Close()
		fresh, freshIn := tls.Client(raw, ca.Client()), bufio.NewReader(raw)
		freshIn.Reset(fresh)
		holder, err := tls.Dial("tcp", sv.addr, ca.Client())
		if err != nil {
			return err // it took longer than the limit
		}
		defer holder.Close()
		old, err := tls.Dial("tcp", sv.addr, ca.Client())
		if err != nil {
			return err
		}
		defer old.Close()
		oldIn := bufio.NewReader(old)
		const ask = "GET / HTTP/1.1\r\nHost: h\r\n\r\n"
		io.WriteString(old, ask)
		served := func(r *bufio.Reader) error {
			resp, err := http.ReadResponse(r, nil)
			if err != nil {
				return err
			}
			body, err := io.ReadAll(resp.Body)
			if err != nil || string(body) != "served" {
				return fmt.Errorf("%v, %q, %v", resp.Status, body, err)
			}
			return nil
		}
		if err := served(oldIn); err != nil {
			return err
		}
		io.WriteString(holder, "GET /hold HTTP/1.1\r\nHost: h\r\n\r\n")
		select {
		case <-holds:
		case <-time.After(10 * limit):
			return errors.New("the loop was not held: the connection's time was over before")
		}
		io.WriteString(old, ask)
		shaken := make(chan error, 1)
		go func() {
			_, err := io.WriteString(fresh, ask)
			shaken <- err
		}()
		<-time.After(2 * limit)
		let()
		if err := <-shaken; err != nil {
			return fmt.Errorf("the hello: %w", err)
		}
		return errors.Join(served(freshIn), served(oldIn))
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
	holder, r := sv.dialTLS(ca.Client())
	io.WriteString(holder, "GET /hold HTTP/1.1\r\nHost: h\r\n\r\n")
	testenv.Until(t, "the loop is held", held.Load)
	const leavers = 100
	for i := range leavers {
		nc := testenv.Need(net.Dial("tcp", sv.addr))(t)
		testenv.Need(nc.Write(hello))(t)
		if i%2 == 0 { // else it only ends its side
			nc.Close()
		} else {
			nc.(*net.TCPConn).CloseWrite()
			defer nc.Close()
		}
	}
	release.Store(true)
	wantBody(t, r, "GET /hold? h")
	testenv.Until(t, "all have been looked at", func() bool {
		_, failed, _ := sv.Handshakes()
		return failed >= leavers
	})
	testenv.Equal(t, computed.Load(), 1, "handshakes computed")
	testenv.Equal(t, sv.log.String(), "", "the log")
	stays, r := sv.dialTLS(ca.Client())
	io.WriteString(stays, "GET /a HTTP/1.1\r\nHost: h\r\n\r\n")
	wantBody(t, r, "GET /a? h")
}

// helloOf is the first that a client sends.
func helloOf(t *testing.T, config *tls.Config) []byte {
	t.Helper()
	ours, theirs := net.Pipe()
	defer ours.Close()
	go tls.Client(theirs, config).Handshake()
	hello := make([]byte, tlsin.RecordBuffer)
	return hello[:testenv.Need(ours.Read(hello))(t)]
}

// TestTLSWithoutCertificate: it is told before anybody connects.
func TestTLSWithoutCertificate(t *testing.T) {
	s := &Server{TLS: &tls.Config{}}
	for _, err := range []error{s.ListenAndServe(), s.Run(context.Background())} {
		testenv.ErrorIs(t, err, tlsin.ErrNoCertificate)
	}
}
