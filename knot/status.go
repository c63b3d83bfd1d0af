package knot

import (
	"fmt"
	"strconv"

	"github.com/capriccio-go/capriccio/knot/internal/h1"
)

// Status is an HTTP status code as an error: a handler that returns one is answered with the standard page of that
// status. 499 is for the access log: the client has disconnected, and is sent nothing.
type Status int

// Error is the number and the standard text, as in "404 Not Found".
func (s Status) Error() string {
	return fmt.Sprintf("%d %s", int(s), h1.ReasonPhrase(int(s)))
}

const errorPageType = "text/html; charset=utf-8"

// appendErrorPage appends the page for a status.
func appendErrorPage(dst []byte, status int) []byte {
	reason := h1.ReasonPhrase(status)
	dst = append(dst, "<!doctype html>\n<meta charset=\"utf-8\">\n<title>"...)
	dst = strconv.AppendInt(dst, int64(status), 10)
	dst = append(append(append(dst, ' '), reason...), "</title>\n<h1>"...)
	dst = strconv.AppendInt(dst, int64(status), 10)
	return append(append(append(dst, ' '), reason...), "</h1>\n"...)
}
