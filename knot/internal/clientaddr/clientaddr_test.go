package clientaddr

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot/internal/h1"
)

func TestDecide(t *testing.T) {
	for _, test := range []struct {
		name, trust, also string
		unix              bool
		lines             string
		client            string // "": none
		trusted           bool
	}{
		{"nobody is trusted", "", "", false, "X-Forwarded-For: 6.6.6.6", "192.0.2.1", false},
		{"another is trusted", "10.0.0.0/8 unix:", "", false, "X-Forwarded-For: 6.6.6.6", "192.0.2.1", false},
		{"a proxy says nothing", "192.0.2.1", "", false, "", "192.0.2.1", true},
		{"a proxy", "192.0.2.0/24", "", false, "X-Forwarded-For: 6.6.6.6, 198.51.100.7", "198.51.100.7", true},
		{"a proxy, IPv4 as IPv6", "::ffff:192.0.2.1", "", false, "X-Forwarded-For: 198.51.100.7", "198.51.100.7", true},
		{"a network, IPv4 as IPv6", "::ffff:192.0.2.0/120", "", false, "X-Forwarded-For: 198.51.100.7", "198.51.100.7", true},
		{"a chain", "192.0.2.0/24 10.0.0.1", "", false, "X-Forwarded-For: 6.6.6.6, 198.51.100.7, 10.0.0.1", "198.51.100.7", true},
		{"in several lines", "192.0.2.1 10.0.0.1", "", false, "X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-For: 198.51.100.7\r\nX-Forwarded-For: 10.0.0.1", "198.51.100.7", true},
		{"all are trusted", "0.0.0.0/0", "", false, "X-Forwarded-For: 198.51.100.7, 10.0.0.1", "198.51.100.7", true},
		{"port", "192.0.2.1", "", false, "X-Forwarded-For: 198.51.100.7:4711", "198.51.100.7", true},
		{"IPv6", "192.0.2.1", "", false, "X-Forwarded-For: 2001:db8::7", "2001:db8::7", true},
		{"IPv6 and port", "192.0.2.1", "", false, "X-Forwarded-For: [2001:db8::7]:80", "2001:db8::7", true},
		{"IPv6 in brackets", "192.0.2.1", "", false, "X-Forwarded-For: [2001:db8::7]", "2001:db8::7", true},
		{"IPv4 as IPv6", "192.0.2.1", "", false, "X-Forwarded-For: ::ffff:198.51.100.7", "198.51.100.7", true},
		{"an entry is unknown", "192.0.2.1 10.0.0.1", "", false, "X-Forwarded-For: 6.6.6.6, unknown, 10.0.0.1", "10.0.0.1", true},
		{"no entry", "192.0.2.1", "", false, "X-Forwarded-For: ", "192.0.2.1", true},
		{"Forwarded", "192.0.2.1", "", false, `Forwarded: for=6.6.6.6;proto=http, Proto=https;FOR="[2001:db8::7]:80"`, "2001:db8::7", true},
		{"X-Forwarded-For goes before", "192.0.2.1", "", false, "Forwarded: for=6.6.6.6\r\nX-Forwarded-For: 198.51.100.7", "198.51.100.7", true},
		{"a host that looks like an element", "192.0.2.1", "", false, `Forwarded: for=198.51.100.7;host="a,for=6.6.6.6"`, "198.51.100.7", true},
		{"a quote that does not end", "192.0.2.1", "", false, "Forwarded: for=6.6.6.6\r\n" + `Forwarded: for="6.6.6.6, for=198.51.100.7`, "192.0.2.1", true},
		{"unix", "", "", true, "X-Forwarded-For: 6.6.6.6", "", false},
		{"unix is not an address", "0.0.0.0/0 ::/0", "", true, "X-Forwarded-For: 6.6.6.6", "", false},
		{"unix is trusted", "unix:", "", true, "X-Forwarded-For: 6.6.6.6, 198.51.100.7", "198.51.100.7", true},
		{"unix twice", "unix:", "", true, "X-Forwarded-For: 198.51.100.7, unix:", "198.51.100.7", true},
		{"an address is not unix", "unix:", "", false, "X-Forwarded-For: 6.6.6.6", "192.0.2.1", false},
		{"a handler trusts more", "10.0.0.1", "192.0.2.1", false, "X-Forwarded-For: 198.51.100.7, 10.0.0.1", "198.51.100.7", true},
		{"the server and a handler trust one each", "192.0.2.1", "10.0.0.1", false, "X-Forwarded-For: 198.51.100.7, 10.0.0.1", "198.51.100.7", true},
		{"a handler trusts another", "", "10.0.0.1", false, "X-Forwarded-For: 6.6.6.6", "192.0.2.1", false},
	} {
		all, also := testenv.Need(ParsePeers(strings.Fields(test.trust)...))(t), testenv.Need(ParsePeers(strings.Fields(test.also)...))(t)
		var peer net.Addr = &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 4711}
		ip := netip.AddrFrom4([4]byte{192, 0, 2, 1})
		if test.unix {
			peer, ip = &net.UnixAddr{Net: "unix"}, netip.Addr{}
		}
		head, text := new(h1.Head), []byte("GET / HTTP/1.1\r\nHost: h\r\n"+test.lines+"\r\n\r\n")
		if test.lines == "" {
			text = text[:len(text)-2]
		}
		if f := head.Parse(text, &h1.HeadLimits{Line: 1000, Size: 1000, Fields: 100}); f != nil {
			t.Fatal(f)
		}
		got := Decide(ip, peer, &all, &also, head, text)
		addr := ""
		if got.Addr.IsValid() {
			addr = got.Addr.String()
		}
		testenv.Equal(t, addr, test.client, test.name)
		testenv.Equal(t, got.Trusted, test.trusted, "%s: trusted", test.name)
	}
}

func TestParsePeers(t *testing.T) {
	for _, bad := range []string{"", "localhost", "10.0.0.0/33", "unix", "10.0.0.1:80"} {
		testenv.Fails(t, testenv.Err(ParsePeers("10.0.0.1", bad)), "%q is taken", bad)
	}
}
