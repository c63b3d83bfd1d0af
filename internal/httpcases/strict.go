package httpcases

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
	"syscall"
)

// A Backend takes only requests that are right by the letter, and answers as the cases need. Requests counts them.
type Backend struct {
	Requests atomic.Int64
	// Path, if there is one, makes of a path that came the one that a client has asked for.
	Path func(came string) string
}

var (
	cleanLine  = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+ (\\*|/[\\x21-\\x7e\\x80-\\xff]*) HTTP/1\\.1$")
	cleanField = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+: ?([^\\x00-\\x20\\x7f]([^\\x00-\\x08\\x0a-\\x1f\\x7f]*[^\\x00-\\x20\\x7f])?)?$")
)

// section reads lines up to an empty one.
func section(r *bufio.Reader) (lines []string, err error) {
	for {
		line, err := r.ReadString('\n')
		if line == "" && len(lines) == 0 && (err == io.EOF || errors.Is(err, syscall.ECONNRESET)) {
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

// Serve answers the requests of a connection. It returns an error for one that is not right, and nil when the connection ends.
func (b *Backend) Serve(c net.Conn) error {
	r := bufio.NewReader(c)
	for {
		lines, err := section(r)
		if err == io.EOF || errors.Is(err, net.ErrClosed) {
			return nil // the proxy has closed a connection at rest, or this is the end of the test
		}
		if err != nil || len(lines) == 0 || !cleanLine.MatchString(lines[0]) {
			return fmt.Errorf("the backend got the head %.300q, %w", lines, err)
		}
		body, err := bodyBehind(lines, r)
		if err != nil {
			return err
		}
		if body == nil {
			return nil // the client has broken off, and so has the proxy
		}
		b.Requests.Add(1)
		method, rest, _ := strings.Cut(lines[0], " ")
		target, _, _ := strings.Cut(rest, " ")
		if b.Path != nil {
			target = b.Path(target)
		}
		status := "200 OK\r\nContent-Length: 0"
		if target == NoContent {
			status = "204 No Content"
		}
		if _, err := fmt.Fprintf(c, "HTTP/1.1 %s\r\nSeen: %s\r\n\r\n", status, Seen(method, target, string(body))); err != nil {
			return nil
		}
	}
}

// bodyBehind reads the body of a request with a head of lines; nil if it is not whole.
func bodyBehind(lines []string, r *bufio.Reader) (body []byte, err error) {
	fields := make(textproto.MIMEHeader)
	for _, line := range lines[1:] {
		if !cleanField.MatchString(line) {
			return nil, fmt.Errorf("the backend got the line %.300q", line)
		}
		name, value, _ := strings.Cut(line, ":")
		fields.Add(name, strings.TrimSpace(value))
	}
	lengths, codings := fields["Content-Length"], fields["Transfer-Encoding"]
	if len(fields["Host"]) != 1 || len(lengths)+len(codings) > 1 || len(codings) == 1 && codings[0] != "chunked" {
		return nil, fmt.Errorf("the backend got the head %.300q", lines)
	}
	switch {
	case len(lengths) == 1:
		n, err := strconv.Atoi(lengths[0])
		if err != nil {
			return nil, fmt.Errorf("the backend got the head %.300q", lines)
		}
		body = make([]byte, n)
		if _, err := io.ReadFull(r, body); err != nil {
			return nil, nil
		}
		return body, nil
	case len(codings) == 1:
		body, err = io.ReadAll(httputil.NewChunkedReader(r))
		if err == io.ErrUnexpectedEOF {
			return nil, nil
		}
		if err == nil {
			_, err = section(r) // trailers
		}
		if err != nil {
			return nil, fmt.Errorf("the backend got chunks behind %.300q: %w", lines, err)
		}
	}
	return append([]byte{}, body...), nil
}
