package proxyheader

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// bin is a header of version 2.
func bin(command, family byte, rest string) string {
	return string(binary.BigEndian.AppendUint16(append([]byte(signature), command, family), uint16(len(rest)))) + rest
}

// summed is a header whose last four bytes are its checksum, plus off.
func summed(header string, off uint32) string {
	b := []byte(header)
	binary.BigEndian.PutUint32(b[len(b)-4:], crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))+off)
	return string(b)
}

const (
	four = "\xc0\x00\x02\x07\x0a\x00\x00\x01\x12\x34\x01\xbb" // 192.0.2.7:4660 to 10.0.0.1:443
	sum  = "\x03\x00\x04\x00\x00\x00\x00"
)

var six = "\x20\x01\x0d\xb8" + strings.Repeat("\x00", 11) + "\x07" + strings.Repeat("\x00", 15) + "\x01" + "\x12\x34\x01\xbb"

// cases are headers and what they say: both addresses, "none", or with ! a part of the error.
var cases = []struct{ header, want string }{
	{"PROXY TCP4 192.0.2.7 10.0.0.1 4660 443\r\n", "192.0.2.7:4660 10.0.0.1:443"},
	{"PROXY TCP4 1.1.1.1 1.1.1.1 0 0\r\n", "1.1.1.1:0 1.1.1.1:0"},
	{"PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n", "255.255.255.255:65535 255.255.255.255:65535"},
	{"PROXY TCP6 2001:db8::7 ::1 4660 443\r\n", "[2001:db8::7]:4660 [::1]:443"},
	{"PROXY TCP6 ::ffff:192.0.2.7 ::1 1 2\r\n", "192.0.2.7:1 [::1]:2"},
	{"PROXY UNKNOWN\r\n", "none"},
	{"PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n", "none"},
	{bin(0x21, 0x11, four), "192.0.2.7:4660 10.0.0.1:443"},
	{bin(0x21, 0x12, four), "192.0.2.7:4660 10.0.0.1:443"},
	{bin(0x21, 0x21, six), "[2001:db8::7]:4660 [::1]:443"},
	{bin(0x21, 0x11, four+"\x04\x00\x03abc\xea\x00\x00"), "192.0.2.7:4660 10.0.0.1:443"},
	{bin(0x21, 0x11, four+"\x04\x0e\x10"+strings.Repeat("x", 3600)), "192.0.2.7:4660 10.0.0.1:443"},
	{summed(bin(0x21, 0x11, four+sum), 0), "192.0.2.7:4660 10.0.0.1:443"},
	{bin(0x21, 0x31, strings.Repeat("x", 216)), "none"},
	{bin(0x21, 0x00, ""), "none"},
	{bin(0x20, 0x00, ""), "none"},
	{bin(0x20, 0x11, four), "none"},
	{bin(0x20, 0x11, "junk"), "none"},

	{"PROXY TCP4 192.0.2.7 10.0.0.1 4660 65536\r\n", `!"65536" is no port`},
	{"PROXY TCP4 192.0.2.7 10.0.0.1 4660 +443\r\n", `!"+443" is no port`},
	{"PROXY TCP4 192.0.2.7 10.0.0.1 04660 443\r\n", `!"04660" is no port`},
	{"PROXY TCP4 192.0.2.7  4660 443\r\n", `!"" is no address`},
	{"PROXY TCP4 ::1 ::1 4660 443\r\n", `!"::1" is no address of that kind`},
	{"PROXY TCP6 1.1.1.1 1.1.1.1 1 1\r\n", `!"1.1.1.1" is no address of that kind`},
	{"PROXY TCP6 fe80::1%eth0 ::1 1 1\r\n", "!is no address"},
	{"PROXY TCP4 192.0.2.7 10.0.0.1 4660 443 5\r\n", "!malformed"},
	{"PROXY TCP4 192.0.2.7 10.0.0.1 4660 443\n" + strings.Repeat("x", 99), "!no line end"},
	{"PROXY TCP5 192.0.2.7 10.0.0.1 4660 443\r\n", "!malformed"},
	{"PROXY UNKNOWNED\r\n", "!malformed"},
	{"PROXY UNKNOWN " + strings.Repeat("x", 91) + "\r\n", "none"}, // 107 bytes
	{"PROXY UNKNOWN " + strings.Repeat("x", 92) + "\r\n", "!within 107 bytes"},
	{"PROXY TCP4 " + strings.Repeat("1", 1000), "!within 107 bytes"},
	{"GET / HTTP/1.1\r\nHost: h\r\n\r\n", "!does not begin with a header"},
	{"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03abcdefghijkl", "!does not begin with a header"},
	{"\r\n\r\nGET / HTTP/1.1\r\n\r\n", "!does not begin with a header"},
	{"proxy tcp4 1.1.1.1 1.1.1.1 1 1\r\n", "!does not begin with a header"},
	{bin(0x11, 0x11, four), "!version and command 0x11"},
	{bin(0x22, 0x11, four), "!version and command 0x22"},
	{bin(0x21, 0x41, four), "!address family 0x41"},
	{bin(0x21, 0x13, four), "!transport 0x13"},
	{bin(0x21, 0x11, four[:11]), "!11 bytes for addresses; want 12"},
	{bin(0x21, 0x21, four), "!12 bytes for addresses; want 36"},
	{bin(0x21, 0x11, four+"\x04\x00\x04abc"), "!ends too early"},
	{bin(0x21, 0x11, four+"\x04\x00"), "!ends too early"},
	{bin(0x21, 0x11, four+"\x04\x0f\xff"+strings.Repeat("x", 4095)), "!4126 bytes; want at most 4096"},
	{summed(bin(0x21, 0x11, four+sum), 1), "!its checksum"},
	{bin(0x21, 0x11, four+"\x03\x00\x03abc"), "!a checksum of 3 bytes"},
	{"", "!EOF"},
	{"PROXY TCP4 192.0.2.7", "!unexpected EOF"},
	{signature, "!unexpected EOF"},
}

func said(h Header, err error) string {
	switch {
	case err != nil:
		return "!" + err.Error()
	case h == Header{}:
		return "none"
	}
	return fmt.Sprint(h.Source, " ", h.Destination)
}

// TestRead: each header is understood, or refused with a reason, whole or byte by byte, and what follows it is left.
func TestRead(t *testing.T) {
	const follows = "GET / HTTP/1.1\r\n"
	for _, c := range cases {
		for _, slowly := range []bool{false, true} {
			text := c.header
			if !strings.HasPrefix(c.want, "!") {
				text += follows
			}
			from := strings.NewReader(text)
			var r io.Reader = from
			if slowly {
				r = iotest.OneByteReader(from)
			}
			got := said(Read(r))
			if ok := got == c.want || c.want[0] == '!' && strings.Contains(got, c.want[1:]); !ok {
				t.Errorf("%q: %s; want %s", c.header, got, c.want)
			}
			if rest, _ := io.ReadAll(from); c.want[0] != '!' && string(rest) != follows {
				t.Errorf("%q: left %q", c.header, rest)
			}
		}
	}
}

// FuzzRead: the bytes of a header are the same whether they come at once or one by one, nothing behind it is taken, and what is
// taken is a header by itself.
func FuzzRead(f *testing.F) {
	for _, c := range cases {
		f.Add([]byte(c.header + "rest"))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		from := bytes.NewReader(data)
		h, err := Read(from)
		slow := bytes.NewReader(data)
		again, slowErr := Read(iotest.OneByteReader(slow))
		testenv.Equal(t, slowErr == nil, err == nil, "it is a header, byte by byte: %v, else %v", slowErr, err)
		taken := data[:len(data)-from.Len()]
		testenv.AtMost(t, len(taken), mostBin, "bytes taken")
		if err == nil {
			testenv.Equal(t, said(again, slowErr), said(h, err), "byte by byte")
			testenv.Equal(t, slow.Len(), from.Len(), "bytes left, byte by byte")
			testenv.Equal(t, said(Read(bytes.NewReader(taken))), said(h, nil), "the header alone")
			testenv.Fails(t, testenv.Err(Read(bytes.NewReader(taken[:len(taken)-1]))), "a header that is cut off is taken")
		}
	})
}
