package knot

import (
	"strconv"
	"unicode/utf8"

	"github.com/capriccio-go/capriccio/knot/internal/clock"
	"github.com/capriccio-go/capriccio/knot/internal/h1"
)

// appendJSONLine appends the line of a request in the form LogJSON.
func (x *Ctx) appendJSONLine(b []byte, host string, now *clock.Stamp) []byte {
	b = append(b, `{"time":"`...)
	b = append(b, now.ISO...)
	b = append(b, '"')
	if host != noHost {
		b = appendJSONField(b, "client", h1.Bytes(host))
	}
	if x.user != "" {
		b = appendJSONField(b, "user", h1.Bytes(x.user))
	}
	if x.head.Size > 0 {
		b = appendJSONField(b, "method", h1.Bytes(x.Method()))
		b = appendJSONField(b, "target", x.head.Target.Of(x.headBytes()))
		proto := protoText(int(x.head.Minor))
		if x.c.stream != nil {
			proto = "HTTP/2.0"
		}
		b = append(append(append(b, `,"proto":"`...), proto...), '"')
		b = appendJSONField(b, "host", x.HostBytes())
	} else { // it could not be parsed
		b = appendJSONField(b, "line", x.requestLine())
	}
	b = strconv.AppendInt(append(b, `,"status":`...), int64(x.resp.status), 10)
	b = strconv.AppendInt(append(b, `,"bytes":`...), x.resp.written, 10)
	for _, name := range [...][2]string{{"referer", "referer"}, {"user-agent", "user_agent"}} {
		if value, ok := x.head.Find(x.headBytes(), name[0]); ok {
			b = appendJSONField(b, name[1], value)
		}
	}
	if x.began != 0 {
		b = append(b, `,"duration_ms":`...)
		b = strconv.AppendFloat(b, float64((x.srv.clock.Elapsed()-x.began).Microseconds())/1000, 'f', -1, 64)
	}
	return append(b, "}\n"...)
}

// appendJSONField appends a member whose name needs no escapes, and a comma before it.
func appendJSONField(b []byte, name string, value []byte) []byte {
	b = append(append(append(b, `,"`...), name...), `":"`...)
	cut := len(value) > logMaxText
	if cut {
		value = value[:logMaxText]
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
