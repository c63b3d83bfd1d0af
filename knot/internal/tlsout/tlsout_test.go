package tlsout

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A link is a net.Conn in memory whose Write waits for a word of the test, if it has a channel.
type link struct {
	net.Conn
	out    Out
	writes chan []byte // each that begins
	goOn   chan error  // how each ends
	closed chan bool
	by     time.Time // the write deadline of the raw connection
}

func (l *link) Read(p []byte) (int, error) {
	l.out.Flush()
	return l.Conn.Read(p)
}

func (l *link) Write(p []byte) (int, error)        { return l.out.Write(p) }
func (l *link) SetWriteDeadline(t time.Time) error { return nil }

// raw is what is below the Out.
type raw struct{ *link }

func (r raw) SetWriteDeadline(t time.Time) error { r.by = t; return nil }

func (r raw) Write(p []byte) (int, error) {
	if r.writes == nil {
		return r.Conn.Write(p)
	}
	r.writes <- bytes.Clone(p)
	if err := <-r.goOn; err != nil {
		return 0, err
	}
	return r.Conn.Write(p)
}

func (r raw) Close() error {
	close(r.closed)
	return r.Conn.Close()
}

// secured is a server's side of a connection, after its handshake, and the client's.
func secured(t *testing.T) (*link, *tls.Conn, *tls.Conn) {
	t.Helper()
	a, b := net.Pipe()
	t.Cleanup(func() { a.Close(); b.Close() })
	cert, _ := testenv.SelfSigned()
	l := &link{Conn: a, closed: make(chan bool)}
	l.out.Init(raw{l})
	server := tls.Server(l, &tls.Config{Certificates: []tls.Certificate{cert}})
	client := tls.Client(b, &tls.Config{InsecureSkipVerify: true})
	shaken := make(chan error)
	go func() { shaken <- client.Handshake() }()
	testenv.Must(t, server.Handshake())
	testenv.Must(t, <-shaken)
	go func() { shaken <- l.out.Flush() }() // tickets, which the client takes when it reads
	go client.Write([]byte("."))
	testenv.Need(server.Read(make([]byte, 1)))(t)
	testenv.Must(t, <-shaken)
	go func() { shaken <- testenv.Err(l.out.Send(server, []byte("."))) }()
	testenv.Need(client.Read(make([]byte, 1)))(t)
	testenv.Must(t, <-shaken)
	return l, server, client
}

// TestSendInPieces: all of a large Write arrives, in few writes, none of which is larger than a piece and its records.
func TestSendInPieces(t *testing.T) {
	l, server, client := secured(t)
	l.writes, l.goOn = make(chan []byte), make(chan error)
	content := bytes.Repeat([]byte("0123456789abcde\n"), 10_000)
	sent := make(chan error)
	go func() {
		n, err := l.out.Send(server, content)
		if err == nil && n != len(content) {
			err = errors.New("a short write without an error")
		}
		sent <- err
	}()
	writes := 0
	go func() {
		for b := range l.writes {
			if len(b) > piece+piece/16 {
				t.Errorf("a write has %d bytes", len(b))
			}
			writes++
			l.goOn <- nil
		}
	}()
	got := make([]byte, len(content))
	testenv.Need(io.ReadFull(client, got))(t)
	testenv.Must(t, <-sent)
	if want := (len(content) + piece - 1) / piece; !bytes.Equal(got, content) || writes != want {
		t.Errorf("%d writes, want %d; the content is the same: %v", writes, want, bytes.Equal(got, content))
	}
}

// TestAReaderDoesNotWaitForAWriter: an alert is left to the Send that waits for the client, and follows what that sends.
func TestAReaderDoesNotWaitForAWriter(t *testing.T) {
	l, server, client := secured(t)
	l.writes, l.goOn = make(chan []byte), make(chan error)
	sent := make(chan error)
	go func() { sent <- testenv.Err(l.out.Send(server, []byte("answer"))) }()
	<-l.writes // it waits
	go client.NetConn().Write(append([]byte("\x17\x03\x03\x00\x20"), make([]byte, 32)...))
	_, err := server.Read(make([]byte, 1))
	if err == nil {
		t.Fatal("a record that is no good was read")
	}
	testenv.Must(t, l.out.Flush()) // what a reader does then
	got := make(chan error)
	go func() {
		b := make([]byte, 6)
		if _, err := io.ReadFull(client, b); err != nil || string(b) != "answer" {
			t.Errorf("%q, %v", b, err)
		}
		got <- testenv.Err(client.Read(b))
	}()
	l.goOn <- nil
	<-l.writes
	l.goOn <- nil
	var alert *net.OpError
	if err := <-got; !errors.As(err, &alert) || alert.Op != "remote error" {
		t.Errorf("the client: %v, want the alert", err)
	}
	testenv.Must(t, <-sent)
}

// TestAReaderWaitsWithMuch: a client that reads nothing, and has us answer, does not fill the memory.
func TestAReaderWaitsWithMuch(t *testing.T) {
	l, server, client := secured(t)
	l.writes, l.goOn = make(chan []byte), make(chan error)
	sent, flushed := make(chan error), make(chan int)
	go func() { sent <- testenv.Err(l.out.Send(server, []byte("answer"))) }()
	<-l.writes // it waits
	testenv.Need(l.out.Write(make([]byte, mostLeft+1)))(t)
	go func() {
		l.out.Flush()
		flushed <- l.out.left()
	}()
	select {
	case n := <-flushed:
		t.Fatalf("Flush does not wait, and leaves %d bytes", n)
	case <-time.After(50 * time.Millisecond):
	}
	go io.Copy(io.Discard, client.NetConn())
	l.goOn <- nil
	<-l.writes
	l.goOn <- nil
	testenv.Must(t, <-sent)
	testenv.Equal(t, <-flushed, 0, "left")
}

// TestAfterAnErrorNothingIsSent: part of a record may have left.
func TestAfterAnErrorNothingIsSent(t *testing.T) {
	l, server, _ := secured(t)
	l.writes, l.goOn = make(chan []byte, 1), make(chan error, 1)
	l.goOn <- os.ErrDeadlineExceeded
	n, err := l.out.Send(server, make([]byte, 2*piece))
	if n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d, %v; want 0 and the deadline", n, err)
	}
	<-l.writes
	if n, err := l.out.Send(server, []byte("more")); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the next: %d, %v; want 0 and the deadline", n, err)
	}
	l.out.Close(server)
	select {
	case b := <-l.writes:
		t.Errorf("%d bytes were sent behind a part of a record", len(b))
	case <-l.closed:
	}
}

// TestClose: the other end is told, in 5 s at most; not if a Send waits, which Close ends.
func TestClose(t *testing.T) {
	l, server, client := secured(t)
	end := make(chan error)
	go func() { end <- testenv.Err(client.Read(make([]byte, 1))) }()
	testenv.Must(t, l.out.Close(server))
	if err := <-end; err != io.EOF {
		t.Errorf("the client: %v, want EOF", err)
	}
	if d := time.Until(l.by); d <= 0 || d > closeTime {
		t.Errorf("the end may take %v", d)
	}
	if _, err := l.out.Send(server, []byte("more")); err == nil {
		t.Error("something was sent behind the end")
	}

	l, server, _ = secured(t)
	sent := make(chan error)
	go func() { sent <- testenv.Err(l.out.Send(server, []byte("answer"))) }() // the client does not read
	testenv.Until(t, "a task sends", func() bool {
		free := l.out.sending.TryLock()
		if free {
			l.out.sending.Unlock()
		}
		return !free
	})
	testenv.Must(t, l.out.Close(server))
	if err := <-sent; err == nil {
		t.Error("a Send that Close has cut off has no error")
	}
}
