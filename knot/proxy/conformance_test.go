package proxy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httputil"
	"net/textproto"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/httpcases"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestConformance runs the table of cases against Knot as a proxy. What reaches the backend has to be clean however
// the client wrote it: by its letter, with one framing, and one request for each that is answered.
func TestConformance(t *testing.T) {
	b := &strictBackend{}
	backend := testenv.Serve(t, func(c net.Conn) { testenv.Check(t, b.serve(c)) })
	f := serve(t, Config{Backends: []string{"http://" + backend}}, 1)
	c := &httpcases.Client{Dial: func() (net.Conn, error) { return net.Dial("tcp", f.addr) }, Patience: time.Minute}
	for _, k := range httpcases.Cases {
		before := b.requests.Load()
		got, fault := c.Run(&k)
		if fault != "" || !httpcases.Allowed(got, k.Want) {
			t.Errorf("%s (RFC %s): %s, want %s; %s\n%.300q", k.Name, k.Section, got, k.Want, fault, k.Send)
		}
		answered := int64(strings.Count(got, "200") + strings.Count(got, "204") + strings.Count(got, "keep"))
		if n := b.requests.Load() - before; n != answered {
			t.Errorf("%s: %s, but %d requests reached the backend\n%.300q", k.Name, got, n, k.Send)
		}
	}
}

// A strictBackend takes only requests that are right by the letter.
type strictBackend struct{ requests atomic.Int64 }

var (
	cleanLine  = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+ (\\*|/[\\x21-\\x7e\\x80-\\xff]*) HTTP/1\\.1$")
	cleanField = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+: ?([^\\x00-\\x20\\x7f]([^\\x00-\\x08\\x0a-\\x1f\\x7f]*[^\\x00-\\x20\\x7f])?)?$")
)

// section reads lines up to an empty one.
func section(r *bufio.Reader) (lines []string, err error) {
	for {
		line, err := r.ReadString('\n')
		if err == io.EOF && line == "" && len(lines) == 0 {
			return nil, io.EOF
		}
		line, ok := strings.CutSuffix(line, "\r\n")
		if err != nil || !ok {
			return nil, fmt.Errorf("the line %.300q behind %.300q: %w", line, lines, err)
		}
		if line == "" {
			return lines, nil
		}
		lines = append(lines, line)
	}
}

func (b *strictBackend) serve(c net.Conn) error {
	r := bufio.NewReader(c)
	for {
		lines, err := section(r)
		if err == io.EOF || errors.Is(err, net.ErrClosed) {
			return nil // the proxy has closed a connection at rest, or this is the end of the test
		}
		if err != nil || len(lines) == 0 || !cleanLine.MatchString(lines[0]) {
			return fmt.Errorf("the backend got the head %.300q, %w", lines, err)
		}
		fields := make(textproto.MIMEHeader)
		for _, line := range lines[1:] {
			if !cleanField.MatchString(line) {
				return fmt.Errorf("the backend got the line %.300q", line)
			}
			name, value, _ := strings.Cut(line, ":")
			fields.Add(name, strings.TrimSpace(value))
		}
		lengths, codings := fields["Content-Length"], fields["Transfer-Encoding"]
		if len(fields["Host"]) != 1 || len(lengths)+len(codings) > 1 || len(codings) == 1 && codings[0] != "chunked" {
			return fmt.Errorf("the backend got the head %.300q", lines)
		}
		var body []byte
		switch {
		case len(lengths) == 1:
			n, err := strconv.Atoi(lengths[0])
			if err != nil {
				return fmt.Errorf("the backend got the head %.300q", lines)
			}
			if body, _ = io.ReadAll(io.LimitReader(r, int64(n))); len(body) < n {
				return nil // the client has broken off, and so has the proxy
			}
		case len(codings) == 1:
			if body, err = io.ReadAll(httputil.NewChunkedReader(r)); err == io.ErrUnexpectedEOF {
				return nil
			} else if err == nil {
				_, err = section(r) // trailers
			}
			if err != nil {
				return fmt.Errorf("the backend got chunks behind %.300q: %w", lines, err)
			}
		}
		b.requests.Add(1)
		method, rest, _ := strings.Cut(lines[0], " ")
		target, _, _ := strings.Cut(rest, " ")
		status := "200 OK\r\nContent-Length: 0"
		if target == httpcases.NoContent {
			status = "204 No Content"
		}
		if _, err := fmt.Fprintf(c, "HTTP/1.1 %s\r\nSeen: %s\r\n\r\n", status, httpcases.Seen(method, target, string(body))); err != nil {
			return nil
		}
	}
}
