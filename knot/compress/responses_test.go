package compress

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/knottest"
)

const browser = "gzip, deflate, br, zstd"

// long is a text whose codings are longer than what a response holds back, and too long for the memory of a knot.Files.
var long = func() string {
	var b strings.Builder
	for i := range uint64(5000) {
		fmt.Fprintf(&b, "{%016x}\n", i*i*0x9e3779b97f4a7c15)
	}
	return b.String()
}()

var short = long[:3000]

func undone(t *testing.T, coding string, r io.Reader) io.Reader {
	t.Helper()
	switch coding {
	case "":
		return r
	case "br":
		return brotli.NewReader(r)
	case "gzip":
		return testenv.Need(gzip.NewReader(r))(t)
	case "zstd":
		d := testenv.Need(zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(zstdWindow)))(t)
		t.Cleanup(d.Close)
		return d
	}
	t.Fatalf("coding %q", coding)
	return nil
}

// clients are net/http's, by version.
func clients(t *testing.T) map[string]*http.Client {
	h1 := &http.Transport{DisableCompression: true}
	h2 := testenv.PlainHTTP2(t)
	h2.DisableCompression = true
	t.Cleanup(h1.CloseIdleConnections)
	return map[string]*http.Client{"HTTP/1.1": {Transport: h1}, "HTTP/2": {Transport: h2}}
}

func ask(t *testing.T, c *http.Client, method, url string, lines ...string) *http.Response {
	t.Helper()
	r := testenv.Need(http.NewRequest(method, url, nil))(t)
	for i := 0; i < len(lines); i += 2 {
		r.Header.Add(lines[i], lines[i+1])
	}
	resp := testenv.Need(c.Do(r))(t)
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// handlers answer with text, in all ways that there are.
func handlers(t *testing.T, text string) map[string]knot.Handler {
	t.Helper()
	root := t.TempDir()
	testenv.Must(t, os.WriteFile(filepath.Join(root, "a.json"), []byte(text), 0o644))
	files := testenv.Need(knot.OpenFiles(root, knot.FilesConfig{}))(t)
	t.Cleanup(func() { files.Close() })
	asHTTP := func(h http.HandlerFunc) knot.Handler { return knot.AdaptHTTP(h) }
	typed := func(w http.ResponseWriter) { w.Header().Set("Content-Type", "application/json") }
	return map[string]knot.Handler{
		"send": func(x *knot.Ctx) error { return x.Send(200, "application/json", []byte(text)) },
		"write": func(x *knot.Ctx) error {
			x.SetContentType("application/json")
			for line := range strings.Lines(text) {
				if _, err := x.WriteString(line); err != nil {
					return err
				}
			}
			return nil
		},
		"declared": func(x *knot.Ctx) error {
			x.SetContentType("application/json")
			x.SetContentLength(int64(len(text)))
			_, err := x.WriteString(text)
			return err
		},
		"flush": func(x *knot.Ctx) error {
			x.SetContentType("application/json")
			x.WriteString(text[:100])
			x.Flush()
			x.Flush()
			_, err := x.WriteString(text[100:])
			return err
		},
		"trailer": func(x *knot.Ctx) error {
			x.SetContentType("application/json")
			x.AddHeader("Trailer", "X-End")
			x.WriteString(text)
			return x.AddTrailer("X-End", "yes")
		},
		"slowed": func(x *knot.Ctx) error {
			x.SetRate(1<<30, 0)
			x.SetContentType("application/json")
			_, err := x.WriteString(text)
			return err
		},
		"file": func(x *knot.Ctx) error { return files.HandleAs(x, "/a.json") },
		"http": asHTTP(func(w http.ResponseWriter, r *http.Request) {
			typed(w)
			io.WriteString(w, text)
		}),
		"http.copy": asHTTP(func(w http.ResponseWriter, r *http.Request) {
			typed(w)
			f := testenv.Need(os.Open(filepath.Join(root, "a.json")))(t)
			defer f.Close()
			io.Copy(w, f)
		}),
		"http.ServeContent": asHTTP(func(w http.ResponseWriter, r *http.Request) {
			typed(w)
			f := testenv.Need(os.Open(filepath.Join(root, "a.json")))(t)
			defer f.Close()
			http.ServeContent(w, r, "a.json", time.Time{}, f)
		}),
		"http.flush": asHTTP(func(w http.ResponseWriter, r *http.Request) {
			typed(w)
			io.WriteString(w, text[:100])
			http.NewResponseController(w).Flush()
			io.WriteString(w, text[100:])
		}),
		"http.error": asHTTP(func(w http.ResponseWriter, r *http.Request) { http.Error(w, text, 404) }),
	}
}

// site serves handlers by path.
func site(t *testing.T, all map[string]knot.Handler, o Options) string {
	return knottest.Serve(t, &knot.Server{H2C: true, ErrorLog: testenv.Quiet(), Handler: Handler(func(x *knot.Ctx) error {
		if h := all[x.Path()[1:]]; h != nil {
			return h(x)
		}
		return knot.Status(404)
	}, o)})
}

// TestWays: each way to answer, over each version, with each coding, gives clients the same text.
func TestWays(t *testing.T) {
	for _, text := range []string{short, long} {
		all := handlers(t, text)
		url := site(t, all, Options{})
		for proto, c := range clients(t) {
			for way := range all {
				for _, coding := range []string{"", "gzip", "br", "zstd"} {
					what := fmt.Sprint(proto, " ", way, " ", coding, " ", len(text))
					resp := ask(t, c, "GET", url+"/"+way, "Accept-Encoding", coding)
					body, err := io.ReadAll(undone(t, resp.Header.Get("Content-Encoding"), resp.Body))
					testenv.Check(t, err, what)
					testenv.True(t, strings.TrimRight(string(body), "\n") == strings.TrimRight(text, "\n"), "%s: %d bytes, want %d", what, len(body), len(text))
					testenv.Equal(t, resp.Header.Get("Content-Encoding"), coding, what)
					testenv.Equal(t, strings.Join(resp.Header["Vary"], ";"), "Accept-Encoding", what)
					if way == "trailer" {
						testenv.Equal(t, resp.Trailer.Get("X-End"), "yes", what)
					}
					head := ask(t, c, "HEAD", url+"/"+way, "Accept-Encoding", coding)
					testenv.Equal(t, head.Header.Get("Content-Encoding"), coding, "HEAD "+what)
					testenv.Equal(t, head.StatusCode, resp.StatusCode, "HEAD "+what)
					if coding != "" {
						testenv.Equal(t, head.ContentLength, -1, "length of HEAD "+what)
					}
					if coding != "" && len(text) == len(short) && way != "flush" && way != "http.flush" && way != "trailer" && (way != "declared" && way != "http.ServeContent") {
						testenv.True(t, resp.ContentLength > 0 && resp.ContentLength < int64(len(text))/2, "%s: Content-Length %d", what, resp.ContentLength)
					}
				}
			}
		}
	}
}

// TestWithOneZero: a client of HTTP/1.0 gets a long body until the connection ends, and a short one with its length.
func TestWithOneZero(t *testing.T) {
	url := site(t, map[string]knot.Handler{
		"long":  handlers(t, long)["write"],
		"short": handlers(t, short)["write"],
	}, Options{})
	for path, text := range map[string]string{"long": long, "short": short} {
		nc := testenv.Dial(t, strings.TrimPrefix(url, "http://"))
		fmt.Fprintf(nc, "GET /%s HTTP/1.0\r\nAccept-Encoding: gzip\r\n\r\n", path)
		resp := testenv.Need(http.ReadResponse(bufio.NewReader(nc), nil))(t)
		testenv.Equal(t, string(testenv.Need(io.ReadAll(undone(t, "gzip", resp.Body)))(t)), text, path)
		testenv.Equal(t, resp.ContentLength > 0, path == "short", path)
		testenv.Equal(t, len(resp.TransferEncoding), 0, path)
	}
}

// TestAsItComes: what was written before Flush can be read before the handler goes on.
func TestAsItComes(t *testing.T) {
	goOn := make(chan struct{})
	text := strings.Repeat("half of it ", 100)
	url := site(t, map[string]knot.Handler{"": knot.AdaptHTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		io.WriteString(w, text)
		w.(http.Flusher).Flush()
		<-goOn
		io.WriteString(w, text)
	}))}, Options{})
	for proto, c := range clients(t) {
		for _, coding := range []string{"gzip", "br", "zstd"} {
			resp := ask(t, c, "GET", url, "Accept-Encoding", coding)
			r, first := undone(t, coding, resp.Body), make([]byte, len(text))
			testenv.Need(io.ReadFull(r, first))(t)
			testenv.Equal(t, string(first), text, proto, coding)
			goOn <- struct{}{}
			testenv.Equal(t, string(testenv.Need(io.ReadAll(r))(t)), text, proto, coding)
		}
	}
}

// TestWhich: which responses are compressed, and what becomes of their header.
func TestWhich(t *testing.T) {
	answer := func(status int, ctype, body string, lines ...string) knot.Handler {
		return func(x *knot.Ctx) error {
			for i := 0; i < len(lines); i += 2 {
				x.AddHeader(lines[i], lines[i+1])
			}
			return x.Send(status, ctype, []byte(body))
		}
	}
	const js, none = "text/javascript; charset=utf-8", "-"
	for name, c := range map[string]struct {
		h       knot.Handler
		o       Options
		ask     []string
		coding  string
		vary    string // "-": none
		tag     string
		status  int
		content string
	}{
		"plain":            {h: answer(200, js, short), coding: "zstd"},
		"own order":        {h: answer(200, js, short), o: Options{Codings: []string{"gzip", "br"}}, coding: "gzip"},
		"weights":          {h: answer(200, js, short), ask: []string{"Accept-Encoding", "zstd;q=0.5, br;q=0.8"}, coding: "br"},
		"not":              {h: answer(200, js, short), ask: []string{"Accept-Encoding", "gzip;q=0"}},
		"star":             {h: answer(200, js, short), ask: []string{"Accept-Encoding", "zstd;q=0, *"}, coding: "br"},
		"identity":         {h: answer(200, js, short), ask: []string{"Accept-Encoding", "identity, gzip;q=0.5"}},
		"nothing else":     {h: answer(200, js, short), ask: []string{"Accept-Encoding", "identity;q=0"}},
		"two lines":        {h: answer(200, js, short), ask: []string{"Accept-Encoding", "deflate", "Accept-Encoding", "x-gzip"}, coding: "gzip"},
		"little":           {h: answer(200, js, short[:511]), vary: none},
		"less than that":   {h: answer(200, js, short[:511]), o: Options{Min: 511}, coding: "zstd"},
		"a picture":        {h: answer(200, "image/png", short), vary: none},
		"named":            {h: answer(200, "Image/PNG", short), o: Options{Types: []string{"image/*"}}, coding: "zstd"},
		"not named":        {h: answer(200, js, short), o: Options{Types: []string{"image/*"}}, vary: none},
		"events":           {h: answer(200, "text/event-stream", short), vary: none},
		"events of texts":  {h: answer(200, "text/event-stream", short), o: Options{Types: []string{"text/*"}}, vary: none},
		"events, named":    {h: answer(200, "text/event-stream", short), o: Options{Types: []string{"text/event-stream"}}, coding: "zstd"},
		"coded":            {h: answer(200, js, short, "Content-Encoding", "compress"), coding: "compress", vary: none},
		"no-transform":     {h: answer(200, js, short, "Cache-Control", "public, No-Transform"), vary: none},
		"asked not to":     {h: answer(200, js, short), ask: []string{"Accept-Encoding", "gzip", "Cache-Control", "no-transform"}, vary: none},
		"digest":           {h: answer(200, js, short, "Repr-Digest", "sha-256=:AA==:"), vary: none},
		"a part":           {h: answer(206, js, short, "Content-Range", "bytes 0-2999/9000"), vary: none, status: 206},
		"unsatisfiable":    {h: answer(416, js, short, "Content-Range", "bytes */9000"), vary: none, status: 416},
		"an error":         {h: answer(500, js, short), coding: "zstd", status: 500},
		"varies":           {h: answer(200, js, short, "Vary", "Origin"), coding: "zstd", vary: "Origin, Accept-Encoding"},
		"varies by it":     {h: answer(200, js, short, "Vary", "accept-encoding, Cookie"), coding: "zstd", vary: "accept-encoding, Cookie"},
		"varies by all":    {h: answer(200, js, short, "Vary", "*"), coding: "zstd", vary: "*"},
		"strong tag":       {h: answer(200, js, short, "ETag", `"a"`), coding: "zstd", tag: `W/"a"`},
		"weak tag":         {h: answer(200, js, short, "ETag", `W/"a"`), coding: "zstd", tag: `W/"a"`},
		"tag kept":         {h: answer(200, js, short, "ETag", `"a"`), ask: []string{"Accept-Encoding", "deflate"}, tag: `"a"`},
		"tag is known":     {h: answer(200, js, short, "ETag", `"a,b"`), ask: []string{"Accept-Encoding", "br", "If-None-Match", `"x", W/"a,b"`}, tag: `W/"a,b"`, status: 304, content: none},
		"tag is not known": {h: answer(200, js, short, "ETag", `"a"`), ask: []string{"Accept-Encoding", "br", "If-None-Match", `W/"b"`}, tag: `W/"a"`, coding: "br"},
		"tag is a part":    {h: answer(200, js, short, "ETag", `10`), ask: []string{"Accept-Encoding", "br", "If-None-Match", `W/"10", W/105, AW/10`}, tag: `W/10`, coding: "br"},
		"unchanged":        {h: answer(304, "", "", "ETag", `"a"`), ask: []string{"If-None-Match", `W/"a"`}, tag: `W/"a"`, status: 304, content: none},
		"unchanged, plain": {h: answer(304, "", "", "ETag", `"a"`), ask: []string{"If-None-Match", `"a"`}, tag: `"a"`, status: 304, content: none},
		"nothing":          {h: answer(204, "", ""), vary: none, status: 204, content: none},
		"no memory":        {h: answer(200, js, short), o: Options{Memory: 1000}},
		"no limit":         {h: answer(200, js, short), o: Options{Memory: -1}, coding: "zstd"},
		"ranges":           {h: answer(200, js, short, "Accept-Ranges", "bytes"), coding: "zstd"},
	} {
		if c.ask == nil {
			c.ask = []string{"Accept-Encoding", browser}
		}
		h := Handler(c.h, c.o)
		r := testenv.Need(http.NewRequest("GET", "/", nil))(t)
		for i := 0; i < len(c.ask); i += 2 {
			r.Header.Add(c.ask[i], c.ask[i+1])
		}
		resp := knottest.Do(t, h, r)
		testenv.Equal(t, resp.Header.Get("Content-Encoding"), c.coding, name)
		if c.vary == "" {
			c.vary = "Accept-Encoding"
		}
		testenv.Equal(t, strings.Join(resp.Header["Vary"], ", "), strings.TrimPrefix(c.vary, none), name+": Vary")
		testenv.Equal(t, resp.Header.Get("ETag"), c.tag, name+": ETag")
		testenv.Equal(t, resp.StatusCode, max(c.status, 200), name)
		if c.coding != "compress" && c.coding != "" {
			testenv.Equal(t, string(testenv.Need(io.ReadAll(undone(t, c.coding, resp.Body)))(t)), short[:lenOf(name)], name)
			testenv.Equal(t, resp.Header.Get("Accept-Ranges"), "", name)
		} else if c.content == none {
			testenv.Equal(t, len(testenv.Need(io.ReadAll(resp.Body))(t)), 0, name)
		}
	}
}

// lenOf is how much of short a case of TestWhich sends.
func lenOf(name string) int {
	if name == "less than that" {
		return 511
	}
	return len(short)
}

// TestRanges: a range of a file is one of the file as it is, and the compressed file has no tag by which another range could be
// added to it.
func TestRanges(t *testing.T) {
	url := site(t, handlers(t, long), Options{})
	c := clients(t)["HTTP/1.1"]
	whole := ask(t, c, "GET", url+"/file", "Accept-Encoding", "gzip")
	tag := whole.Header.Get("ETag")
	testenv.True(t, strings.HasPrefix(tag, `W/"`), "ETag %s", tag)
	part := ask(t, c, "GET", url+"/file", "Accept-Encoding", "gzip", "Range", "bytes=10-19")
	testenv.Equal(t, part.StatusCode, 206)
	testenv.Equal(t, string(testenv.Need(io.ReadAll(part.Body))(t)), long[10:20])
	testenv.Equal(t, ask(t, c, "GET", url+"/file", "Accept-Encoding", "gzip", "Range", "bytes=10-19", "If-Range", tag).StatusCode, 200, "If-Range with a weak tag")
	testenv.Equal(t, ask(t, c, "GET", url+"/file", "Accept-Encoding", "gzip", "If-None-Match", tag).StatusCode, 304)
}

// TestBroken: a response that is broken off ends without the end of its body, and its encoder is there for the next: there is
// memory for one.
func TestBroken(t *testing.T) {
	begin := func(x *knot.Ctx) {
		x.SetContentType("text/plain")
		x.WriteString(short)
		x.Flush()
	}
	url := site(t, map[string]knot.Handler{
		"panic": func(x *knot.Ctx) error { begin(x); panic("broken") },
		"error": func(x *knot.Ctx) error { begin(x); return knot.Status(502) },
		"short": func(x *knot.Ctx) error {
			x.SetContentLength(int64(len(short)) + 1)
			begin(x)
			return nil
		},
		"late": func(x *knot.Ctx) error {
			x.SetContentType("text/plain")
			x.WriteString(short)
			panic("before anything has left")
		},
		"whole": func(x *knot.Ctx) error { begin(x); return nil },
		"http": knot.AdaptHTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, short)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		})),
	}, Options{Memory: 4 << 20, Codings: []string{"br"}})
	for proto, c := range clients(t) {
		for _, path := range []string{"panic", "error", "short", "late", "http"} {
			resp := ask(t, c, "GET", url+"/"+path, "Accept-Encoding", browser)
			body, err := io.ReadAll(resp.Body)
			if path == "late" {
				testenv.Equal(t, resp.StatusCode, 500, proto+path)
				testenv.Must(t, err)
			} else {
				testenv.Fails(t, err, fmt.Sprintf("%s %s: %d bytes", proto, path, len(body)))
			}
			next := ask(t, c, "GET", url+"/whole", "Accept-Encoding", browser)
			testenv.Equal(t, next.Header.Get("Content-Encoding"), "br", proto+" after "+path)
			testenv.Equal(t, string(testenv.Need(io.ReadAll(undone(t, "br", next.Body)))(t)), short, proto+" after "+path)
		}
	}
}

// TestGoneClient: a client that goes while a file is being compressed for it does not show that the file has changed.
func TestGoneClient(t *testing.T) {
	root := t.TempDir()
	text := make([]byte, 32<<20) // far more than the buffers of the connection
	rand.NewChaCha8([32]byte{1}).Read(text)
	testenv.Must(t, os.WriteFile(filepath.Join(root, "a.json"), text, 0o644))
	files := testenv.Need(knot.OpenFiles(root, knot.FilesConfig{}))(t)
	t.Cleanup(func() { files.Close() })
	ended := make(chan bool, 1)
	url := site(t, map[string]knot.Handler{"file": func(x *knot.Ctx) error {
		defer func() { ended <- true }()
		return files.HandleAs(x, "/a.json")
	}}, Options{Codings: []string{"gzip"}})
	c := testenv.Need(net.Dial("tcp", strings.TrimPrefix(url, "http://")))(t)
	testenv.Need(io.WriteString(c, "GET /file HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip\r\n\r\n"))(t)
	head := make([]byte, 1000)
	testenv.Need(io.ReadFull(c, head))(t)
	testenv.Contains(t, string(head), "Content-Encoding: gzip")
	testenv.Must(t, c.Close())
	<-ended
	testenv.Equal(t, files.Stats().Stale, 0, "files taken for changed")
}

// unwrapped is what middleware makes of a ResponseWriter.
type unwrapped struct{ http.ResponseWriter }

func (u unwrapped) Unwrap() http.ResponseWriter { return u.ResponseWriter }

// TestHTTP: the middleware for handlers of net/http, behind other middleware too, and with Knot's log of what was sent.
func TestHTTP(t *testing.T) {
	h := HTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		io.WriteString(w, long)
	}), Options{})
	outer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(unwrapped{w}, r) })
	var log testenv.Buffer
	access := knot.NewAccessLog(&log, knot.LogCommon)
	url := knottest.Serve(t, &knot.Server{H2C: true, AccessLog: access, Handler: knot.AdaptHTTP(outer)})
	for proto, c := range clients(t) {
		resp := ask(t, c, "GET", url, "Accept-Encoding", browser)
		testenv.Equal(t, resp.Header.Get("Content-Encoding"), "zstd", proto)
		coded := testenv.Need(io.ReadAll(resp.Body))(t)
		testenv.True(t, string(testenv.Need(io.ReadAll(undone(t, "zstd", bytes.NewReader(coded))))(t)) == long, "%s: another text", proto)
		testenv.Until(t, "the line of the log", func() bool {
			access.Flush()
			return strings.Contains(log.String(), fmt.Sprintf(" 200 %d", len(coded)))
		})
	}
}

// TestWhileTheBodyIsRead: filters ask for the header of a request while a goroutine reads its body into a larger buffer.
func TestWhileTheBodyIsRead(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).EnableFullDuplex()
		read := make(chan int64)
		go func() {
			n, _ := io.Copy(io.Discard, r.Body)
			read <- n
		}()
		w.Header().Set("Content-Type", "text/plain")
		io.WriteString(w, long)
		w.Header().Set(http.TrailerPrefix+"X-Read", fmt.Sprint(<-read))
	})
	url := knottest.Serve(t, &knot.Server{H2C: true, Handler: knot.AdaptHTTP(HTTP(h, Options{}))})
	for proto, c := range clients(t) {
		r := testenv.Need(http.NewRequest("POST", url, io.MultiReader(strings.NewReader(long[:7000]), strings.NewReader(long[:7000]))))(t)
		r.Header.Set("Accept-Encoding", browser)
		r.Header.Set("Cookie", strings.Repeat("c", 7000))
		resp := testenv.Need(c.Do(r))(t)
		testenv.True(t, string(testenv.Need(io.ReadAll(undone(t, "zstd", resp.Body)))(t)) == long, "%s: another text", proto)
		testenv.Equal(t, resp.Trailer.Get("X-Read"), "14000", proto)
		resp.Body.Close()
	}
}

// TestCurl: curl undoes what it asks for.
func TestCurl(t *testing.T) {
	curl := testenv.Program(t, "curl")
	url := site(t, handlers(t, long), Options{})
	for _, flags := range [][]string{{"--http1.1"}, {"--http2-prior-knowledge"}, {"--http1.0"}} {
		out := testenv.Need(exec.Command(curl, append(flags, "-sS", "--compressed", url+"/flush")...).Output())(t)
		testenv.True(t, string(out) == long, "%s: another text", flags)
	}
}

// TestOptions: what is wrong with options, "" if nothing.
func TestOptions(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Types: []string{"text/*", "application/json"}, Codings: []string{"br"}}, ""},
		{Options{Codings: []string{"deflate"}}, `coding "deflate"; want zstd, br or gzip`},
		{Options{Types: []string{"json"}}, `type "json"; want one like`},
		{Options{Types: []string{"*/json"}}, `type "*/json"`},
	} {
		if err := c.o.Validate(); c.want == "" {
			testenv.Must(t, err)
		} else {
			testenv.ErrorSays(t, err, c.want)
			testenv.MustPanic(t, "Handler", func() { Handler(nil, c.o) })
		}
	}
}
