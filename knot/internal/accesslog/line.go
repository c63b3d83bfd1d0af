// Package accesslog makes lines of access logs: what is known of a request and its response, as text. Everything that comes
// from the client is escaped, and bounded.
package accesslog

import (
	"bytes"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/capriccio-go/capriccio/knot/internal/clientaddr"
	"github.com/capriccio-go/capriccio/knot/internal/clock"
	"github.com/capriccio-go/capriccio/knot/internal/h1"
)

// maxText bounds each text that comes from the client, in bytes.
const maxText = 1024

// An Entry is what a line says. Bytes may be views: nothing is kept of them.
type Entry struct {
	Client string // its address, or clientaddr.NoHost
	User   string // "": not known
	ID     string // of the request; "": none
	Line   []byte // the first line of the request as it came, however wrong; empty: nothing came
	Framed int    // 2 or 3: the request is one of HTTP/2 or HTTP/3; 0: neither

	Head *h1.Head // Size 0: it could not be parsed
	Text []byte   // what the spans of Head count from

	Status int
	Bytes  int64         // of the body of the response
	Took   time.Duration // below 0: not known
}

// AppendCombined appends the line in the Combined Log Format, or, without Referer and User-Agent, in the Common Log Format. An
// ID is a further field at its end.
func (e *Entry) AppendCombined(b []byte, now *clock.Stamp, common bool) []byte {
	b = append(append(b, e.Client...), " - "...)
	if e.User == "" {
		b = append(b, '-')
	} else {
		b = appendText(b, h1.Bytes(strings.ReplaceAll(e.User, " ", "_"))) // a space would end it
	}
	b = append(append(append(b, ' '), now.Log...), ` "`...)
	if before, ok := bytes.CutSuffix(e.line(), []byte("HTTP/1.1")); ok && e.Framed > 0 {
		b = append(appendText(b, before), h1.FramedProto(e.Framed)...)
	} else {
		b = appendText(b, e.line())
	}
	b = strconv.AppendInt(append(b, `" `...), int64(e.Status), 10)
	b = strconv.AppendInt(append(b, ' '), e.Bytes, 10)
	if !common {
		for _, name := range [...]string{"referer", "user-agent"} {
			value, ok := e.Head.Find(e.Text, name)
			if !ok {
				value = h1.Bytes("-")
			}
			b = append(appendText(append(b, ` "`...), value), '"')
		}
	}
	if e.ID != "" {
		b = append(appendText(append(b, ` "`...), h1.Bytes(e.ID)), '"')
	}
	return append(b, '\n')
}

func (e *Entry) line() []byte {
	if len(e.Line) == 0 {
		return h1.Bytes("-")
	}
	return e.Line
}

// appendText escapes what could end the field or the line, or upset a terminal.
func appendText(b, text []byte) []byte {
	if len(text) > maxText {
		text = text[:maxText]
	}
	for _, ch := range text {
		switch {
		case ch == '"' || ch == '\\':
			b = append(b, '\\', ch)
		case ch < 0x20 || ch >= 0x7f:
			b = append(b, '\\', 'x', lowerHex[ch>>4], lowerHex[ch&15])
		default:
			b = append(b, ch)
		}
	}
	return b
}

const lowerHex = "0123456789abcdef"

// AppendJSON appends the line as an object of JSON.
func (e *Entry) AppendJSON(b []byte, now *clock.Stamp) []byte {
	b = append(append(append(b, `{"time":"`...), now.ISO...), '"')
	if e.Client != clientaddr.NoHost {
		b = appendField(b, "client", h1.Bytes(e.Client))
	}
	if e.User != "" {
		b = appendField(b, "user", h1.Bytes(e.User))
	}
	if h := e.Head; h.Size > 0 {
		b = appendField(b, "method", h.MethodText(e.Text))
		b = appendField(b, "target", h.Target.Of(e.Text))
		b = appendField(b, "proto", h1.Bytes(h.ProtoText(e.Framed)))
		b = appendField(b, "host", h.Host.Of(e.Text))
	} else {
		b = appendField(b, "line", e.line())
	}
	b = strconv.AppendInt(append(b, `,"status":`...), int64(e.Status), 10)
	b = strconv.AppendInt(append(b, `,"bytes":`...), e.Bytes, 10)
	for _, name := range [...][2]string{{"referer", "referer"}, {"user-agent", "user_agent"}} {
		if value, ok := e.Head.Find(e.Text, name[0]); ok {
			b = appendField(b, name[1], value)
		}
	}
	if e.ID != "" {
		b = appendField(b, "request_id", h1.Bytes(e.ID))
	}
	if e.Took >= 0 {
		b = append(b, `,"duration_ms":`...)
		b = strconv.AppendFloat(b, float64(e.Took.Microseconds())/1000, 'f', -1, 64)
	}
	return append(b, "}\n"...)
}

// appendField appends a member whose name needs no escapes, and a comma before it.
func appendField(b []byte, name string, value []byte) []byte {
	b = append(append(append(b, `,"`...), name...), `":"`...)
	cut := len(value) > maxText
	if cut {
		value = value[:maxText]
	}
	for i := 0; i < len(value); {
		ch := value[i]
		if ch < utf8.RuneSelf {
			switch {
			case ch == '"' || ch == '\\':
				b = append(b, '\\', ch)
			case ch < 0x20 || ch == 0x7f:
				b = append(b, '\\', 'u', '0', '0', lowerHex[ch>>4], lowerHex[ch&15])
			default:
				b = append(b, ch)
			}
			i++
			continue
		}
		r, size := utf8.DecodeRune(value[i:])
		switch {
		case r == utf8.RuneError && size == 1 && cut && len(value)-i < utf8.UTFMax && !utf8.FullRune(value[i:]):
			i = len(value) // it was cut within a character
			continue
		case r == utf8.RuneError && size == 1:
			b = append(b, `\ufffd`...)
		case r < 0xa0 || r == 0x2028 || r == 0x2029: // controls; some readers take these for the end of a line
			b = append(b, '\\', 'u')
			for shift := 12; shift >= 0; shift -= 4 {
				b = append(b, lowerHex[r>>shift&15])
			}
		default:
			b = append(b, value[i:i+size]...)
		}
		i += size
	}
	return append(b, '"')
}
