package tlsin

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestTLSInputIsLetGo: after a handshake nothing is held, after a request what such a one needs, and after an
// upload what a usual request needs. What has come and not been read stays.
func TestTLSInputIsLetGo(t *testing.T) {
	if !inputs.usable {
		t.Fatal("crypto/tls of this release has other fields: look at shedTLS again")
	}
	cert, pool := testenv.SelfSigned()
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	client := tls.Client(far, &tls.Config{RootCAs: pool, ServerName: "test"})
	server := New(near, &tls.Config{Certificates: []tls.Certificate{cert}, SessionTicketsDisabled: true}, true).(*Conn)
	said := make(chan error, 1)
	go func() { said <- client.Handshake() }()
	testenv.Must(t, server.Handshake())
	testenv.Must(t, <-said)
	secure := server.tls.Load()
	testenv.Equal(t, server.Held(), 0, "bytes after the handshake")
	for _, size := range []int{200, 16 << 10, 900, 16 << 10} {
		sent := strings.Repeat("x", size)
		go func() { _, err := io.WriteString(client, sent); said <- err }()
		got := make([]byte, size)
		io.ReadFull(server, got[:size/2])
		shed(secure, 0)
		if _, err := io.ReadFull(server, got[size/2:]); err != nil || string(got) != sent {
			t.Fatalf("%d bytes: %v, or what has come was let go of", size, err)
		}
		testenv.Must(t, <-said)
		shed(secure, KeptInput)
		if held := server.Held(); held > KeptInput || size < 1000 && held == 0 {
			t.Errorf("%d bytes after %d were read, want at most %d, and what a small request needs", held, size, KeptInput)
		}
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
		if at := findInputs(reflect.TypeOf(conn)); at.usable {
			t.Errorf("%T: usable", conn)
		}
	}
}

// TestTLSClientThatLeavesWithinItsHello: the configuration is asked for when the whole hello has come, before a key is computed.
func TestTLSClientThatLeavesWithinItsHello(t *testing.T) {
	ln := testenv.Listen(t)
	client := testenv.Need(net.Dial("tcp", ln.Addr().String()))(t)
	server := testenv.Need(ln.Accept())(t)
	defer server.Close()
	hello := &tls.ClientHelloInfo{Conn: &recordConn{Conn: server}}
	look := Config(new(tls.Config), nil).GetConfigForClient
	testenv.Must(t, testenv.Err(look(hello)), "while it is there")
	client.Close()
	testenv.Until(t, "it has left", func() bool { return testenv.Err(look(hello)) != nil })
	testenv.ErrorIs(t, testenv.Err(look(hello)), errClientLeft)
}

// TestRecordsOneByOne: a recordConn never hands over more than a record, whatever
// pieces they come in.
func TestRecordsOneByOne(t *testing.T) {
	var stream []byte
	sizes := []int{0, 1, 5, 100, 16 << 10, 16<<10 + 256, 3, 0, 7000}
	for i, size := range sizes {
		stream = append(stream, 23, 3, 3, byte(size>>8), byte(size))
		stream = append(stream, bytes.Repeat([]byte{byte(i)}, size)...)
	}
	for _, piece := range []int{1, 2, 3, 7, 1000, 1 << 20} {
		for _, most := range []int{5, 100, 40_000} {
			c := &recordConn{Conn: &pieceConn{rest: stream, piece: piece}}
			var got []byte
			end, buf := 0, make([]byte, most)
			for _, size := range sizes {
				for end += recordHeader + size; len(got) < end; {
					n := testenv.Need(c.Read(buf))(t)
					if got = append(got, buf[:n]...); len(got) > end {
						t.Fatalf("pieces of %d: %d bytes, over the end of a record at %d", piece, len(got), end)
					}
				}
			}
			if !bytes.Equal(got, stream) {
				t.Fatal("not the same")
			}
			if _, err := c.Read(make([]byte, 1)); err != io.EOF || c.buf != nil {
				t.Fatalf("at the end: %v, buffer kept: %v", err, c.buf != nil)
			}
		}
	}
}

// A pieceConn gives rest in pieces.
type pieceConn struct {
	net.Conn
	rest  []byte
	piece int
}

func (c *pieceConn) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), c.piece)], c.rest)
	c.rest = c.rest[n:]
	return n, nil
}
