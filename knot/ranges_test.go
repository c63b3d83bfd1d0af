package knot

import (
	"bytes"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot/internal/store"
)

// parts reads an answer with several ranges; its length must be the declared one.
func parts(t *testing.T, answer, content string) (ranges []store.Range) {
	t.Helper()
	head, body, _ := strings.Cut(answer, "\r\n\r\n")
	lines := strings.Split(head, "\r\n")
	var ctype string
	for _, line := range lines {
		if after, ok := strings.CutPrefix(line, "Content-Type: "); ok {
			ctype = after
		}
	}
	if !slices.Contains(lines, fmt.Sprint("Content-Length: ", len(body))) {
		t.Fatalf("a body of %d bytes under %q", len(body), head)
	}
	kind, params, err := mime.ParseMediaType(ctype)
	if err != nil || kind != "multipart/byteranges" {
		t.Fatalf("type %q, %v", ctype, err)
	}
	r := multipart.NewReader(strings.NewReader(body), params["boundary"])
	for {
		part, err := r.NextRawPart()
		if err == io.EOF {
			return ranges
		}
		testenv.Must(t, err)
		var one store.Range
		var size int
		testenv.Need(fmt.Sscanf(part.Header.Get("Content-Range"), "bytes %d-%d/%d", &one.From, &one.To, &size))(t)
		one.To++
		text, err := io.ReadAll(part)
		if err != nil || string(text) != content[one.From:one.To] || size != len(content) || part.Header.Get("Content-Type") != "application/octet-stream" {
			t.Fatalf("%v of %d: %q, %v, %v", one, size, text, part.Header, err)
		}
		ranges = append(ranges, one)
	}
}

// TestSeveralRanges from memory, by copy and by sendfile.
func TestSeveralRanges(t *testing.T) {
	root := t.TempDir()
	content := string(contentOf(3, 300_000))
	testenv.Must(t, os.WriteFile(filepath.Join(root, "f"), []byte(content), 0o644))
	for name, config := range map[string]FilesConfig{"memory": {CacheFileMax: 1 << 20}, "open": {CacheFileMax: -1}, "none": {CacheBytes: -1, OpenFiles: -1}} {
		t.Run(name, func(t *testing.T) {
			f := openWith(t, root, config)
			for _, test := range []struct {
				ranges string
				want   []store.Range
			}{
				{"0-9,100-109", spans(0, 10, 100, 110)},
				{"100-109,0-9", spans(100, 110, 0, 10)},
				{"0-0,-1", spans(0, 1, 299_999, 300_000)},
				{"5-100000,200000-280000", spans(5, 100_001, 200_000, 280_001)},
				{"0-9,20-29,5-24,5000-", spans(0, 30, 5000, 300_000)},
				{"500-600,0-9,400-499,900000-", spans(400, 601, 0, 10)},
			} {
				answer := askFile(f, "/f", "Range: bytes="+test.ranges+"\r\n")
				if got := parts(t, answer, content); statusOf(answer) != "206" || !slices.Equal(got, test.want) {
					t.Errorf("%s: %s, %v; want %v", test.ranges, statusOf(answer), got, test.want)
				}
			}
			var many []string
			for i := range defaultMaxRanges + 1 {
				many = append(many, fmt.Sprintf("%d-%d", i*100, i*100+1))
			}
			if answer := askFile(f, "/f", "Range: bytes="+strings.Join(many, ",")+"\r\n"); statusOf(answer) != "200" {
				t.Errorf("more ranges than allowed: %s", statusOf(answer))
			}
			if answer := askFile(f, "/f", "Range: bytes="+strings.Join(many[1:], ",")+"\r\n"); len(parts(t, answer, content)) != defaultMaxRanges {
				t.Errorf("as many ranges as allowed: %s", statusOf(answer))
			}
		})
	}
	one := openWith(t, root, FilesConfig{MaxRanges: -1})
	testenv.Equal(t, statusOf(askFile(one, "/f", "Range: bytes=0-1,5-6\r\n")), "200", "two ranges where one is allowed")
}

// TestSeveralRangesOverSendfile: the framing and the pieces leave in order.
func TestSeveralRangesOverSendfile(t *testing.T) {
	root := t.TempDir()
	content := contentOf(4, 2_000_000)
	testenv.Must(t, os.WriteFile(filepath.Join(root, "f"), content, 0o644))
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		sv := start(&Server{Handler: openWith(t, root, FilesConfig{}).Serve})
		p := sv.dial()
		const request = "GET /f HTTP/1.1\r\nHost: h\r\nRange: bytes=10-700000,800000-800009,-500000\r\n\r\n"
		p.send(request + request)
		for range 2 {
			resp, body := p.response("GET")
			_, params, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
			r := multipart.NewReader(strings.NewReader(body), params["boundary"])
			for _, want := range [][]byte{content[10:700_001], content[800_000:800_010], content[1_500_000:]} {
				part := testenv.Need(r.NextPart())(t)
				if got, err := io.ReadAll(part); err != nil || !bytes.Equal(got, want) {
					t.Fatalf("%d bytes, %v; want %d", len(got), err, len(want))
				}
			}
			if _, err := r.NextPart(); err != io.EOF {
				t.Error("another part", err)
			}
		}
	})
}

// TestIfRangeWithAFreshDate: within the second of the last change a date says nothing.
func TestIfRangeWithAFreshDate(t *testing.T) {
	root := layFiles(t, 1, func(int) int { return 100 })
	f := openWith(t, root, FilesConfig{})
	ask := func(at time.Time) string {
		testenv.Must(t, os.Chtimes(filepath.Join(root, "f0"), at, at))
		f.store.Caches.Empty()
		return statusOf(askFile(f, "/f0", "Range: bytes=0-1\r\nIf-Range: "+at.UTC().Format(http.TimeFormat)+"\r\n"))
	}
	if now, old := ask(time.Now()), ask(time.Now().Add(-time.Minute)); now != "200" || old != "206" {
		t.Errorf("just changed %s, changed a minute ago %s; want 200, 206", now, old)
	}
}

// TestIfRangeWithADateOfTwoForms: a client may have the beginning of the other form.
func TestIfRangeWithADateOfTwoForms(t *testing.T) {
	root := t.TempDir()
	writeFile(t, filepath.Join(root, "a.css"), strings.Repeat("plain ", 100))
	writeFile(t, filepath.Join(root, "a.css.gz"), strings.Repeat("zipped ", 10))
	f := openWith(t, root, FilesConfig{Codings: Precompressed()})
	answer := askFile(f, "/a.css", "Accept-Encoding: gzip\r\n")
	for condition, want := range map[string]string{headerOf(answer, "ETag"): "206", headerOf(answer, "Last-Modified"): "200"} {
		if got := statusOf(askFile(f, "/a.css", "Range: bytes=5-\r\nIf-Range: "+condition+"\r\nAccept-Encoding: gzip\r\n")); got != want {
			t.Errorf("If-Range: %s: %s, want %s", condition, got, want)
		}
	}
}

// TestRangesOfAnEmptyFile: there is none that a header could name, and clients ask for bytes=0- in any case.
func TestRangesOfAnEmptyFile(t *testing.T) {
	f := openWith(t, layFiles(t, 1, func(int) int { return 0 }), FilesConfig{})
	for _, ranges := range []string{"0-", "-5", "3-4"} {
		if answer := askFile(f, "/f0", "Range: bytes="+ranges+"\r\n"); statusOf(answer) != "200" || headerOf(answer, "Content-Length") != "0" {
			t.Errorf("%s: %q", ranges, answer)
		}
	}
}

// spans are ranges, given by their ends in turn.
func spans(ends ...int64) (all []store.Range) {
	for i := 0; i < len(ends); i += 2 {
		all = append(all, store.Range{From: ends[i], To: ends[i+1]})
	}
	return all
}
