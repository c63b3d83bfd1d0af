package load

import (
	"bytes"
	"fmt"
	"strconv"
	"time"
)

// response is what a client wants to know of a response.
type response struct {
	status     int
	retryAfter time.Duration // 0 if the server named none
	closes     bool          // the server closes the connection after it
	length     int64         // bytes of head and body
	body       int64         // … of the body
}

// StatusFate is what a status makes of a request.
func StatusFate(status int) Fate {
	switch status {
	case 200:
		return Served
	case 503, 429:
		return Refused
	}
	return Failed
}

// maxHead is the longest head of a response that is understood, in bytes.
const maxHead = 64 << 10

var (
	blankLine  = []byte("\r\n\r\n")
	lineBreak  = []byte("\r\n")
	http11     = []byte("HTTP/1.1 ")
	lengthName = []byte("content-length")
	retryName  = []byte("retry-after")
	connName   = []byte("connection")
	codingName = []byte("transfer-encoding")
	closeToken = []byte("close")
)

// parseHead reads the head of the response that data begins with and returns its length in
// bytes, 0 while it is incomplete. It understands HTTP/1.1 with a Content-Length.
func parseHead(data []byte) (r response, length int, err error) {
	end := bytes.Index(data, blankLine)
	if end < 0 {
		if len(data) > maxHead {
			return r, 0, fmt.Errorf("response head of more than %d bytes", maxHead)
		}
		return r, 0, nil
	}
	head := data[:end+len(lineBreak)]
	if len(head) < 12 || !bytes.HasPrefix(head, http11) {
		return r, 0, fmt.Errorf("response begins with %q, want HTTP/1.1", head[:min(len(head), 16)])
	}
	if r.status, err = strconv.Atoi(string(head[9:12])); err != nil || r.status < 200 {
		return r, 0, fmt.Errorf("status %q, want 200 to 599", head[9:12])
	}
	r.body = -1
	for line := head[bytes.Index(head, lineBreak)+2:]; len(line) > 0; {
		next := bytes.Index(line, lineBreak)
		name, value, _ := bytes.Cut(line[:next], []byte(":"))
		line = line[next+2:]
		if err := r.field(name, bytes.TrimSpace(value)); err != nil {
			return r, 0, err
		}
	}
	if r.body < 0 {
		return r, 0, fmt.Errorf("response %d has no Content-Length", r.status)
	}
	length = end + len(blankLine)
	r.length = int64(length) + r.body
	return r, length, nil
}

// field takes up one header line. The first letter decides for most lines.
func (r *response) field(name, value []byte) (err error) {
	if len(name) == 0 {
		return nil
	}
	switch name[0] | 0x20 {
	case 'c':
		if bytes.EqualFold(name, lengthName) {
			if r.body, err = strconv.ParseInt(string(value), 10, 64); err != nil || r.body < 0 {
				return fmt.Errorf("bad Content-Length %q", value)
			}
		} else if bytes.EqualFold(name, connName) {
			r.closes = bytes.EqualFold(value, closeToken)
		}
	case 'r':
		if bytes.EqualFold(name, retryName) {
			seconds, err := strconv.Atoi(string(value))
			if err != nil || seconds < 0 || seconds > 3600 {
				return fmt.Errorf("bad Retry-After %q, want seconds", value)
			}
			r.retryAfter = time.Duration(seconds) * time.Second
		}
	case 't':
		if bytes.EqualFold(name, codingName) {
			return fmt.Errorf("Transfer-Encoding %q, want a Content-Length", value)
		}
	}
	return nil
}
