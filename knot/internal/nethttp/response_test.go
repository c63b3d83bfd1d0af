package nethttp

import (
	"net/http"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestReadHead(t *testing.T) {
	for _, test := range []struct {
		name   string
		header http.Header
		status int
		fields string
		want   Head
	}{
		{"nothing", nil, 200, "", Head{Length: -1}},
		{"type and length", http.Header{"Content-Type": {"a/b"}, "Content-Length": {"7"}}, 200, "", Head{Type: "a/b", Typed: true, Length: 7}},
		{"no type, no length", http.Header{"Content-Type": nil, "Content-Length": nil}, 200, "", Head{Typed: true, Unsized: true, Length: -1}},
		{"a length that is none", http.Header{"Content-Length": {"1", "2"}}, 200, "", Head{Length: -1, Invalid: "1,2"}},
		{"coded", http.Header{"Content-Encoding": {"br"}}, 200, "Content-Encoding: br\r\n", Head{Typed: true, Length: -1}},
		{"not modified", http.Header{"Content-Type": {"a/b"}, "Etag": {"x"}}, 304, "Etag: x\r\n", Head{Typed: true, Length: -1}},
		{"options of the connection", http.Header{"Connection": {"close, X-Hop, keep-alive, Upgrade"}, "Upgrade": {"h2c"}}, 426,
			"Connection: X-Hop\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n", Head{Close: true, Lasts: true, Length: -1}},
		{"the server's own", http.Header{"Date": nil, "server": {"s"}, "Transfer-Encoding": {"x"}, "a b": {"c"}}, 200, "server: s\r\n", Head{Dated: true, Named: true, Length: -1}},
		{"trailers", http.Header{"Trailer": {"a, B", "If-X, te, a"}, "Trailer:C": {"d"}}, 200, "Trailer: a, B\r\nTrailer: If-X, te, a\r\n", Head{Length: -1}},
	} {
		h := ReadHead(test.header, test.status, nil)
		testenv.Equal(t, string(h.Fields), test.fields, test.name)
		if test.name == "trailers" {
			testenv.EqualSlices(t, h.Announced, []string{"A", "B"}, test.name)
		}
		h.Fields, h.Announced = nil, nil
		testenv.Equal(t, h.Type, test.want.Type, "%s: type", test.name)
		testenv.Equal(t, h.Length, test.want.Length, "%s: length", test.name)
		testenv.Equal(t, h.Invalid, test.want.Invalid, "%s: invalid length", test.name)
		testenv.EqualSlices(t, []bool{h.Typed, h.Unsized, h.Dated, h.Named, h.Lasts, h.Close},
			[]bool{test.want.Typed, test.want.Unsized, test.want.Dated, test.want.Named, test.want.Lasts, test.want.Close}, test.name)
	}
	lines := Trailer(http.Header{"A": {"1"}, "B": {"2", "3"}, "Trailer:D": {"4"}, "Trailer:Content-Length": {"5"}, "E": {"6"}}, []string{"A", "B"})
	testenv.Equal(t, string(lines), "A: 1\r\nB: 2\r\nB: 3\r\nD: 4\r\n", "trailer")
	testenv.Equal(t, string(AppendEarly(nil, 103, http.Header{"Link": {"</a>"}, "Content-Length": {"3"}})), "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
}
