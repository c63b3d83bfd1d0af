package knot

import (
	"fmt"
	"net/http"
	"strconv"
)

// Status is an HTTP status code as an error: a handler that returns one is
// answered for with the standard page of that status. 499 is for the access log: the client has gone, and
// is sent nothing.
type Status int

// statusGone is what nginx logs for a client that has not waited for its answer.
const statusGone Status = 499

// Error is the number and the standard text, as in "404 Not Found".
func (s Status) Error() string {
	return fmt.Sprintf("%d %s", int(s), reasonPhrase(int(s)))
}

func reasonPhrase(status int) string {
	if text := http.StatusText(status); text != "" {
		return text
	}
	return "status code " + strconv.Itoa(status) // as net/http has it
}

// firstStatus and lastStatus are what may stand in a response; widestStatus is what fits
// there, and handlers of net/http may send.
const firstStatus, lastStatus, widestStatus = 100, 599, 999

// statusLines[code-firstStatus] is the status line with its CR LF.
var statusLines = func() (lines [widestStatus - firstStatus + 1]string) {
	for i := range lines {
		code := firstStatus + i
		lines[i] = fmt.Sprintf("HTTP/1.1 %d %s\r\n", code, reasonPhrase(code))
	}
	return lines
}()

// statusLine wants a code from firstStatus to widestStatus.
func statusLine(code int) string { return statusLines[code-firstStatus] }

const errorPageType = "text/html; charset=utf-8"

// appendErrorPage appends the page for a status.
func appendErrorPage(dst []byte, status int) []byte {
	reason := reasonPhrase(status)
	dst = append(dst, "<!doctype html>\n<meta charset=\"utf-8\">\n<title>"...)
	dst = strconv.AppendInt(dst, int64(status), 10)
	dst = append(append(append(dst, ' '), reason...), "</title>\n<h1>"...)
	dst = strconv.AppendInt(dst, int64(status), 10)
	return append(append(append(dst, ' '), reason...), "</h1>\n"...)
}
