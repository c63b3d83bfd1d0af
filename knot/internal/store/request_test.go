package store

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot/internal/h1"
)

// TestRangesAgainstNaive: random lists, against marking every byte.
func TestRangesAgainstNaive(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 9))
	for range 20_000 {
		size := r.Int64N(30)
		var text []string
		wanted := make([]bool, size)
		for range 1 + r.IntN(5) {
			from, to := r.Int64N(32), r.Int64N(32)
			switch r.IntN(3) {
			case 0:
				if from > to {
					from, to = to, from
				}
				text = append(text, fmt.Sprintf("%d-%d", from, to))
			case 1:
				text, to = append(text, fmt.Sprintf("%d-", from)), size
			default:
				text = append(text, fmt.Sprintf("-%d", to))
				from, to = max(0, size-to), size
			}
			for i := from; i <= to && i < size; i++ {
				wanted[i] = true
			}
		}
		list := "bytes=" + strings.Join(text, ",")
		got, ok := parseRanges(nil, []byte(list), size, 10)
		covered := make([]bool, size)
		for i, p := range got {
			for at := p.From; at < p.To; at++ {
				if covered[at] {
					t.Fatalf("%s of %d: byte %d twice in %v", list, size, at, got)
				}
				covered[at] = true
			}
			for _, q := range got[:i] {
				if p.From == q.To || q.From == p.To || p.From >= p.To {
					t.Fatalf("%s of %d: %v", list, size, got)
				}
			}
		}
		if ok != slices.Contains(wanted, true) || ok && !slices.Equal(covered, wanted) {
			t.Fatalf("%s of %d: %v, %v; want %v", list, size, got, ok, wanted)
		}
	}
}

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

// What a file system says of a name that it can't have is no failure of the server.
func TestStatusOfErrors(t *testing.T) {
	for err, want := range map[error]int{
		unix.ENOENT: 404, unix.ENOTDIR: 404, unix.ENAMETOOLONG: 404,
		unix.EILSEQ: 404, // not UTF-8: ZFS with utf8only, /%ff
		unix.EINVAL: 404, // not of its characters: exFAT, ext4 with folders that ignore case
		unix.EACCES: 403, unix.ELOOP: 403, unix.EXDEV: 403,
		unix.EMFILE: 503, unix.EIO: 0,
	} {
		testenv.Equal(t, StatusOf(err), want, "%v", err)
		testenv.Equal(t, StatusOf(&fs.PathError{Op: "open", Path: "f", Err: err}), want, "%v of a file", err)
	}
}
