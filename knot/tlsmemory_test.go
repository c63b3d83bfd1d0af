package knot

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// heldByTLS is the capacity of the input buffers of a connection that rests, in bytes; -1 if it reads.
func heldByTLS(t *tls.Conn) int {
	at, base := tlsInput, unsafe.Pointer(t)
	mu := (*sync.Mutex)(unsafe.Add(base, at.mutex))
	if !mu.TryLock() {
		return -1
	}
	defer mu.Unlock()
	raw, hand := (*bytes.Buffer)(unsafe.Add(base, at.raw)), (*bytes.Buffer)(unsafe.Add(base, at.hand))
	return max(raw.Cap(), int((*bytes.Reader)(unsafe.Add(base, at.input)).Size())) + hand.Cap()
}

// TestTLSInputIsLetGo: after a handshake nothing is held, after a request what such a one needs, and after an
// upload what a usual request needs. What has come and not been read stays.
func TestTLSInputIsLetGo(t *testing.T) {
	if !tlsInput.usable {
		t.Fatal("crypto/tls of this release has other fields: look at shedTLS again")
	}
	ca := newTestCA(t)
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	client, config := tls.Client(far, ca.client()), ca.config(t).Clone()
	config.SessionTicketsDisabled = true // nobody reads them
	server := newSecureConn(near, config, true)
	said := make(chan error, 1)
	go func() { said <- client.Handshake() }()
	testenv.Must(t, server.handshake())
	testenv.Must(t, <-said)
	secure := server.tls.Load()
	testenv.Equal(t, heldByTLS(secure), 0, "bytes after the handshake")
	for _, size := range []int{200, 16 << 10, 900, 16 << 10} {
		sent := strings.Repeat("x", size)
		go func() { _, err := io.WriteString(client, sent); said <- err }()
		got := make([]byte, size)
		io.ReadFull(server, got[:size/2])
		shedTLS(secure, 0)
		if _, err := io.ReadFull(server, got[size/2:]); err != nil || string(got) != sent {
			t.Fatalf("%d bytes: %v, or what has come was let go of", size, err)
		}
		testenv.Must(t, <-said)
		shedTLS(secure, tlsKept)
		if held := heldByTLS(secure); held > tlsKept || size < 1000 && held == 0 {
			t.Errorf("%d bytes after %d were read, want at most %d, and what a small request needs", held, size, tlsKept)
		}
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
	ca := newTestCA(t)
	sv := startServer(t, &Server{TLS: ca.config(t), ShedTLSBuffers: sheds, Handler: echoHandler, IdleTimeout: time.Hour, HeadTimeout: time.Hour, BodyTimeout: time.Hour}, 1)
	for range 5 {
		nc, r := sv.dialTLS(ca.client())
		io.WriteString(nc, "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 40000\r\n\r\n"+strings.Repeat("x", 40000))
		wantBody(t, r, strings.Repeat("x", 40000))
	}
	held := func() (most int) { // -1: one still reads
		sv.mu.Lock()
		defer sv.mu.Unlock()
		for c := sv.first; c != nil; c = c.next {
			one := heldByTLS(secureOf(c.nc).tls.Load())
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
		return most >= 0 && (!sheds || most <= tlsKept)
	})
	t.Logf("the connection that holds most holds %d bytes", most)
	if !sheds {
		testenv.AtLeast(t, most, tlsKept+1, "bytes that a connection holds")
	}
}

func TestOtherTLSFieldsAreLeftAlone(t *testing.T) {
	type half struct{ sync.Mutex }
	for _, conn := range []any{
		struct{}{},
		struct {
			in             half
			rawInput, hand bytes.Buffer
		}{},
		struct {
			in             half
			rawInput, hand []byte
			input          bytes.Reader
		}{},
		struct {
			in             *half
			rawInput, hand bytes.Buffer
			input          bytes.Reader
		}{},
		struct {
			in             struct{ mu sync.Mutex }
			rawInput, hand bytes.Buffer
			input          bytes.Reader
		}{},
	} {
		if at := findTLSInput(reflect.TypeOf(conn)); at.usable {
			t.Errorf("%T: usable", conn)
		}
	}
}
