package knot

import (
	"fmt"
	"strconv"
)

// Status is an HTTP status code as an error: a handler that returns one is
// answered for with the standard page of that status.
type Status int

// Error is the number and the standard text, as in "404 Not Found".
func (s Status) Error() string {
	return fmt.Sprintf("%d %s", int(s), reasonPhrase(int(s)))
}

// reasons are the phrases of IANA's registry of status codes: those of RFC 9110, section
// 15, and of the RFCs that added others.
var reasons = map[int]string{
	100: "Continue", 101: "Switching Protocols", 102: "Processing", 103: "Early Hints",
	200: "OK", 201: "Created", 202: "Accepted", 203: "Non-Authoritative Information",
	204: "No Content", 205: "Reset Content", 206: "Partial Content", 207: "Multi-Status",
	208: "Already Reported", 226: "IM Used",
	300: "Multiple Choices", 301: "Moved Permanently", 302: "Found", 303: "See Other",
	304: "Not Modified", 305: "Use Proxy", 307: "Temporary Redirect", 308: "Permanent Redirect",
	400: "Bad Request", 401: "Unauthorized", 402: "Payment Required", 403: "Forbidden",
	404: "Not Found", 405: "Method Not Allowed", 406: "Not Acceptable",
	407: "Proxy Authentication Required", 408: "Request Timeout", 409: "Conflict",
	410: "Gone", 411: "Length Required", 412: "Precondition Failed",
	413: "Content Too Large", 414: "URI Too Long", 415: "Unsupported Media Type",
	416: "Range Not Satisfiable", 417: "Expectation Failed", 418: "I'm a teapot",
	421: "Misdirected Request", 422: "Unprocessable Content", 423: "Locked",
	424: "Failed Dependency", 425: "Too Early", 426: "Upgrade Required",
	428: "Precondition Required", 429: "Too Many Requests",
	431: "Request Header Fields Too Large", 451: "Unavailable For Legal Reasons",
	500: "Internal Server Error", 501: "Not Implemented", 502: "Bad Gateway",
	503: "Service Unavailable", 504: "Gateway Timeout", 505: "HTTP Version Not Supported",
	506: "Variant Also Negotiates", 507: "Insufficient Storage", 508: "Loop Detected",
	510: "Not Extended", 511: "Network Authentication Required",
}

func reasonPhrase(status int) string {
	if text := reasons[status]; text != "" {
		return text
	}
	return "Status " + strconv.Itoa(status)
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
