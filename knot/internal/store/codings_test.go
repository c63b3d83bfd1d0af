package store

import (
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot/internal/h1"
)

func TestAcceptedCodings(t *testing.T) {
	list := []Coding{{Name: "br"}, {Name: "zstd"}, {Name: "gzip"}}
	for _, test := range []struct{ header, want string }{
		{"", ""},
		{"gzip", "gzip"},
		{"gzip, deflate, br, zstd", "br zstd gzip"},
		{"GZIP,Br", "br gzip"},
		{"x-gzip", "gzip"},
		{"gzip;q=1.0, br;q=0.5", "gzip br"},
		{"gzip;q=0", ""},
		{"gzip;q=0.000", ""},
		{"*", "br zstd gzip"},
		{"*;q=0.1, zstd", "zstd br gzip"},
		{"br;q=0, *", "zstd gzip"},
		{"identity", ""},
		{"identity;q=1, br;q=0.5", ""},
		{"identity;q=0.5, br;q=0.5, gzip", "gzip br"},
		{"identity;q=0", ""},
		{"gzip;q=2", ""},
		{"gzip;q=0.5x", ""},
		{"gzip;q=", ""},
		{"gzip; q=0.3 , br ;Q=0.4", "br gzip"},
		{"gzip;q=0.0001", ""},
		{",,gzip,,", "gzip"},
		{"deflate, compress", ""},
	} {
		var head h1.Head
		text := "GET / HTTP/1.1\r\nHost: h\r\nAccept-Encoding: " + test.header + "\r\n\r\n"
		testenv.MustEqual(t, head.Parse([]byte(text), &h1.HeadLimits{Line: 100, Size: 1000, Fields: 10}), nil, "%q", text)
		q := Request{Head: &head, Text: []byte(text)}
		var got []string
		for _, i := range q.accepted(nil, list) {
			got = append(got, list[i].Name)
		}
		testenv.Equal(t, strings.Join(got, " "), test.want, "%q: %q", test.header, got)
	}
}
