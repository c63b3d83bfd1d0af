package proxy

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
)

// TestWires: a backend sees the same request, and a client the same response, over HTTP/1.1, HTTP/2 and FastCGI.
func TestWires(t *testing.T) {
	fronts := make(map[string]*front)
	for wire, c := range wires(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if r.URL.Path == "/status" {
			w.WriteHeader(404)
		}
		fmt.Fprintf(w, "%s %s %s|%s|%s|%d %.9q %v", r.Method, r.URL.RequestURI(), r.Host,
			strings.Join(r.Header["Cookie"], "; "), strings.Join(r.Header["X-Two"], ", "), len(body), body, err)
	}) {
		fronts[wire] = serve(t, c, 1, func(s *knot.Server) { s.MaxBody = 1 << 20 })
	}
	chunks := func(body string) string { // with their end
		var b strings.Builder
		for piece := range slices.Chunk([]byte(body), 10_000) {
			fmt.Fprintf(&b, "%x\r\n%s\r\n", len(piece), piece)
		}
		return b.String() + "0\r\n\r\n"
	}
	const chunked = "Transfer-Encoding: chunked\r\n"
	large := strings.Repeat("0123456789", 30_000)
	for _, test := range []struct{ line, lines, body, want string }{
		{"GET /a%2Fb?c=d", "", "", `200 GET /a%2Fb?c=d h|||0 "" <nil>`},
		{"GET /", "Cookie: a=\"x, y\"; b=2\r\n", "", `200 GET / h|a="x, y"; b=2||0 "" <nil>`},
		{"GET /", "Cookie: d=Sat, 28 Nov\r\nCookie: e=3\r\n", "", `200 GET / h|d=Sat, 28 Nov; e=3||0 "" <nil>`},
		{"GET /", "X-Two: a, b\r\nX-Two: c\r\n", "", `200 GET / h||a, b, c|0 "" <nil>`},
		{"GET /status", "", "", `404 GET /status h|||0 "" <nil>`},
		{"POST /", "", "", `200 POST / h|||0 "" <nil>`},
		{"POST /", "Content-Length: 5\r\n", "hello", `200 POST / h|||5 "hello" <nil>`},
		{"POST /", "Content-Length: 300000\r\n", large, `200 POST / h|||300000 "012345678" <nil>`},
		{"POST /", chunked, chunks(""), `200 POST / h|||0 "" <nil>`},
		{"POST /", chunked, chunks("hello"), `200 POST / h|||5 "hello" <nil>`},
		{"POST /", chunked, chunks(large[:largeBuffer]), `200 POST / h|||65536 "012345678" <nil>`},
		{"PUT /", chunked, chunks(large), `200 PUT / h|||300000 "012345678" <nil>`},
		{"PUT /", chunked, chunks(large + large + large + large), "413"},
		{"PUT /", chunked, "5\r\nhello\r\nx\r\n", "400"},
	} {
		for wire, f := range fronts {
			status, body := f.ask(test.line + " HTTP/1.1\r\nHost: h\r\nConnection: close\r\n" + test.lines + "\r\n" + test.body)
			if got := status + " " + body; !strings.HasPrefix(got, test.want) || body == "!" {
				t.Errorf("%s: %s %.60q: %.200q; want %q", wire, test.line, test.lines, got, test.want)
			}
		}
	}
	h2 := testenv.PlainHTTP2(t)
	for _, body := range []string{"", "hello", large} {
		for wire, f := range fronts {
			req := testenv.Need(http.NewRequest("POST", "http://"+f.addr+"/", io.MultiReader(strings.NewReader(body))))(t) // of no known length
			req.Header["Cookie"] = []string{"a=1", "b=2"}
			_, got := roundTrip(t, h2, req)
			want := fmt.Sprintf("POST / %s|a=1; b=2||%d %.9q <nil>", f.addr, len(body), body)
			testenv.Equal(t, got, want, "%s, by HTTP/2", wire)
		}
	}
	for wire, f := range fronts {
		testenv.Equal(t, f.stats().Outstanding, 0, "%s: requests under way", wire)
	}
}

// fastCGIProgram is a program that answers with what answer makes of its variables and its standard input.
func fastCGIProgram(t *testing.T, answer func(env map[string]string, body []byte) string) string {
	return testenv.Serve(t, func(c net.Conn) {
		in := bufio.NewReader(c)
		var params, body []byte
		for ended := false; !ended; {
			var head [8]byte
			if _, err := io.ReadFull(in, head[:]); err != nil {
				return
			}
			content := make([]byte, int(head[4])<<8|int(head[5]))
			io.ReadFull(in, content)
			switch in.Discard(int(head[6])); head[1] {
			case fcgiParams:
				params = append(params, content...)
			case fcgiStdin:
				body = append(body, content...)
				ended = len(content) == 0
			}
		}
		env := make(map[string]string)
		number := func() (n int) {
			if n, params = int(params[0]), params[1:]; n >= 128 {
				n = n&127<<24 | int(params[0])<<16 | int(binary.BigEndian.Uint16(params[1:]))
				params = params[3:]
			}
			return n
		}
		for len(params) > 0 {
			name, value := number(), number()
			env[string(params[:name])] = string(params[name : name+value])
			params = params[name+value:]
		}
		out := appendStream(nil, fcgiStdout, []byte(answer(env, body)), true)
		c.Write(appendRecord(out, fcgiEnd, make([]byte, 8)))
	})
}

// TestMetaVariables is RFC 3875, 4.1, and what PHP wants besides.
func TestMetaVariables(t *testing.T) {
	told := make(chan map[string]string, 1)
	backend := fastCGIProgram(t, func(env map[string]string, _ []byte) string {
		told <- env
		return "\r\n"
	})
	f := serve(t, Config{Backends: []string{backend}, FastCGI: &FastCGI{Root: "/nowhere", Set: map[string]string{"EXTRA": "e"}}}, 1)
	_, port, _ := net.SplitHostPort(f.addr)
	// What is the same in all of them; a name behind a minus sign is not set.
	common := "GATEWAY_INTERFACE=CGI/1.1 SERVER_SOFTWARE=knot SERVER_PROTOCOL=HTTP/1.1 REMOTE_ADDR=127.0.0.1 SERVER_ADDR=127.0.0.1 SERVER_PORT=" + port +
		" DOCUMENT_ROOT=/nowhere EXTRA=e REDIRECT_STATUS=200 REQUEST_SCHEME=http -HTTPS -AUTH_TYPE -REMOTE_USER -HTTP_CONNECTION -HTTP_PROXY -HTTP_CONTENT_LENGTH -HTTP_CONTENT_TYPE -HTTP_EXPECT"
	for _, test := range []struct{ head, body, want string }{
		{"GET /a.php/b/c?x=1&y HTTP/1.1\r\nHost: e.org:8080\r\nProxy: x\r\nAccept-Language: de\r\n", "",
			"REQUEST_METHOD=GET SERVER_NAME=e.org HTTP_HOST=e.org:8080 SCRIPT_NAME=/a.php PATH_INFO=/b/c PATH_TRANSLATED=/nowhere/b/c QUERY_STRING=x=1&y SCRIPT_FILENAME=/nowhere/a.php HTTP_ACCEPT_LANGUAGE=de -CONTENT_LENGTH -CONTENT_TYPE"},
		{"GET /a.php HTTP/1.1\r\nHost: [::1]:8080\r\n", "", "SERVER_NAME=[::1] HTTP_HOST=[::1]:8080 QUERY_STRING= -PATH_INFO -PATH_TRANSLATED"},
		{"GET /a.php HTTP/1.1\r\nHost: [::1]\r\n", "", "SERVER_NAME=[::1] HTTP_HOST=[::1]"},
		{"GET /a.php HTTP/1.1\r\nHost:\r\n", "", "SERVER_NAME=127.0.0.1 -HTTP_HOST"},
		{"GET /a.php HTTP/1.0\r\n", "", "SERVER_NAME=127.0.0.1 -HTTP_HOST"},
		{"HEAD /a.php HTTP/1.1\r\nHost: h\r\n", "", "REQUEST_METHOD=HEAD SERVER_NAME=h -CONTENT_LENGTH"},
		{"POST /a.php HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Type: a/b\r\nContent-Length: 3\r\n", "abc", "REQUEST_METHOD=POST CONTENT_LENGTH=3 CONTENT_TYPE=a/b"},
		{"POST /a.php HTTP/1.1\r\nHost: h\r\n", "", "CONTENT_LENGTH=0 -CONTENT_TYPE"},
		{"PUT /a.php HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n", "3\r\nabc\r\n0\r\n\r\n", "CONTENT_LENGTH=3 -HTTP_TRANSFER_ENCODING"},
		{"GET /b.phps/c.php HTTP/1.1\r\nHost: h\r\n", "", "SCRIPT_FILENAME=/nowhere/b.phps/c.php -PATH_INFO"},
		{"GET /other HTTP/1.1\r\nHost: h\r\n", "", "SCRIPT_NAME=/index.php -PATH_INFO DOCUMENT_URI=/other REQUEST_URI=/other"},
	} {
		f.raw(strings.Replace(test.head, "\r\n", "\r\nConnection: close\r\n", 1) + "\r\n" + test.body)
		env := <-told
		for _, want := range strings.Fields(strings.Replace(common, "HTTP/1.1", test.head[strings.Index(test.head, "HTTP/"):][:8], 1) + " " + test.want) {
			if unset, ok := strings.CutPrefix(want, "-"); ok {
				want = unset
			}
			name, value, set := strings.Cut(want, "=")
			if got, is := env[name]; got != value || is != set {
				t.Errorf("%.60q: %s is %q, %v; want %q, %v", test.head, name, got, is, value, set)
			}
		}
	}
}

// TestSchemeOfAProxy: programs hear by which scheme the client of a trusted proxy has asked, and nothing that others say.
func TestSchemeOfAProxy(t *testing.T) {
	backend := fastCGIProgram(t, func(env map[string]string, _ []byte) string {
		return "\r\n" + env["REQUEST_SCHEME"] + " " + env["HTTPS"]
	})
	for _, test := range []struct{ trust, lines, want string }{
		{"127.0.0.1", "X-Forwarded-Proto: https\r\n", "https on"},
		{"127.0.0.1", "x-forwarded-proto: HTTPS\r\n", "https on"},
		{"127.0.0.1", "X-Forwarded-Proto: http\r\n", "http "},
		{"127.0.0.1", "X-Forwarded-Proto: ftp\r\n", "http "},
		{"127.0.0.1", "X-Forwarded-Proto: https\r\nX-Forwarded-Proto: http\r\n", "http "}, // the client may have sent the first
		{"127.0.0.1", "", "http "},
		{"10.0.0.1", "X-Forwarded-Proto: https\r\n", "http "},
	} {
		f := serve(t, Config{Backends: []string{backend}, Trust: testenv.Need(knot.ParseTrust(test.trust))(t), FastCGI: nowhere}, 1)
		_, body := f.ask("GET / HTTP/1.0\r\n" + test.lines + "\r\n")
		testenv.Equal(t, body, test.want, "%q of a peer, %s is trusted", test.lines, test.trust)
	}
}

// TestScriptsThatAreMissing get no further than Knot, if the root is on this machine.
func TestScriptsThatAreMissing(t *testing.T) {
	root, empty := t.TempDir(), t.TempDir()
	for _, name := range []string{"/index.php", "/a/b.php", "/up/evil.jpg", "/folder.php/x"} {
		testenv.Must(t, os.MkdirAll(filepath.Dir(root+name), 0o755))
		testenv.Must(t, os.WriteFile(root+name, nil, 0o644))
	}
	backend := fastCGIProgram(t, func(env map[string]string, _ []byte) string { return "\r\n" + env["SCRIPT_NAME"] })
	for _, test := range []struct {
		c    FastCGI
		want map[string]string
	}{
		{FastCGI{Root: root}, map[string]string{
			"/": "/index.php", "/a/b.php": "/a/b.php", "/a/b.php/info": "/a/b.php", "/any/thing": "/index.php",
			"/up/evil.jpg/x.php": "404", "/.git/a.php": "404", "/a/none.php": "404", "/folder.php": "404", "/a/b.php" + strings.Repeat("x", 300) + ".php": "404",
		}},
		{FastCGI{Root: root, Index: "none.php"}, map[string]string{"/": "404", "/any/thing": "404", "/a/b.php": "/a/b.php"}},
		{FastCGI{Root: root, AnyScript: true}, map[string]string{"/.git/a.php": "/.git/a.php", "/a/b.php": "/a/b.php"}},
		{FastCGI{Root: empty}, map[string]string{"/.git/a.php": "/.git/a.php"}},
		{FastCGI{Root: empty + "/none"}, map[string]string{"/.git/a.php": "/.git/a.php"}},
	} {
		f := serve(t, Config{Backends: []string{backend}, FastCGI: &test.c}, 1)
		for path, want := range test.want {
			status, body := f.get(path)
			if status != 200 {
				body = fmt.Sprint(status)
			}
			testenv.Equal(t, body, want, "%+v: %s", test.c, path)
		}
	}
}

// TestFilesOfBodies: a long body of unknown length is in a file while its program reads it, and in none afterwards.
func TestFilesOfBodies(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	open := func() (n int) { // descriptors of such files
		for _, fd := range testenv.Need(os.ReadDir("/proc/self/fd"))(t) {
			if name, _ := os.Readlink("/proc/self/fd/" + fd.Name()); strings.HasPrefix(name, dir) {
				n++
			}
		}
		return n
	}
	answer := make(chan bool)
	f := serve(t, Config{FastCGI: nowhere, Backends: []string{fastCGIProgram(t, func(_ map[string]string, body []byte) string {
		<-answer
		return fmt.Sprintf("\r\n%d %v", len(body), bytes.Count(body, []byte("x")) == len(body))
	})}}, 1)
	upload := func(size int) string {
		return f.raw("POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n" +
			fmt.Sprintf("%x\r\n", size) + strings.Repeat("x", size) + "\r\n0\r\n\r\n")
	}
	for size, files := range map[int]int{1000: 0, largeBuffer: 1, 1 << 20: 1} {
		got := make(chan string)
		go func() { got <- upload(size) }()
		testenv.Until(t, "the request", func() bool { return f.stats().Dials > 0 && f.stats().Outstanding == 1 })
		testenv.Equal(t, open(), files, "files of a body of %d bytes", size)
		answer <- true
		testenv.Contains(t, <-got, fmt.Sprintf("%d true", size), "the answer")
		testenv.Until(t, "the end", func() bool { return open() == 0 })
	}
	left := testenv.Need(os.ReadDir(dir))(t)
	testenv.Equal(t, len(left), 0, "files that are left")

	t.Setenv("TMPDIR", dir+"/none")
	testenv.Contains(t, upload(1<<20), "HTTP/1.1 500 ", "without a folder for files")
	testenv.Contains(t, f.log.String(), "can't be kept in a file", "the log")
	t.Setenv("TMPDIR", dir)
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("no small file system for a full disk: %v", err)
	}
	defer unix.Unmount(dir, 0)
	testenv.Contains(t, upload(1<<20), "HTTP/1.1 507 ", "with a full disk")
	testenv.Until(t, "the end", func() bool { return open() == 0 })
}

// TestNoRoom: which status the client gets if a body can't be kept.
func TestNoRoom(t *testing.T) {
	for errno, want := range map[syscall.Errno]knot.Status{syscall.ENOSPC: 507, syscall.EDQUOT: 507, syscall.EMFILE: 503, syscall.EACCES: 500} {
		testenv.ErrorIs(t, noRoom(&os.PathError{Op: "write", Path: "/tmp/x", Err: errno}), want, errno.Error())
	}
}
