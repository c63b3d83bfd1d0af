package h1

import (
	"fmt"
	"net/http"
	"strconv"
)

// FirstStatus and LastStatus are what may stand in a response; WidestStatus is what fits
// there, and handlers of net/http may send.
const FirstStatus, LastStatus, WidestStatus = 100, 599, 999

// statusLines[code-FirstStatus] is the status line with its CR LF.
var statusLines = func() (lines [WidestStatus - FirstStatus + 1]string) {
	for i := range lines {
		code := FirstStatus + i
		lines[i] = fmt.Sprintf("HTTP/1.1 %d %s\r\n", code, ReasonPhrase(code))
	}
	return lines
}()

// StatusLine wants a code from FirstStatus to WidestStatus.
func StatusLine(code int) string { return statusLines[code-FirstStatus] }

// ReasonPhrase is the standard text of a status.
func ReasonPhrase(status int) string {
	if text := http.StatusText(status); text != "" {
		return text
	}
	return "status code " + strconv.Itoa(status) // as net/http has it
}
