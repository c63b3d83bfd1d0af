package forwardauth

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/site"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/knottest"
	"github.com/capriccio-go/capriccio/knot/proxy"
)

// questions are what a judge was asked.
type questions struct {
	mu  sync.Mutex
	all []string
}

func (q *questions) add(text string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.all = append(q.all, text)
}

func (q *questions) get() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.all)
}

// judge is a server that decides by the cookie of a request. What it was asked is in asked.
func judge(asked *questions) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var lines strings.Builder
		fmt.Fprintf(&lines, "%s %s\n", r.Method, r.RequestURI)
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(&lines, "body %q\n", body)
		r.Header.Write(&lines)
		asked.add(strings.ReplaceAll(lines.String(), "\r", ""))
		switch c, _ := r.Cookie("as"); {
		case c == nil:
			w.Header().Set("WWW-Authenticate", "Bearer")
			w.Header().Add("Set-Cookie", "from=auth")
			w.WriteHeader(401)
			io.WriteString(w, "who are you?")
		case c.Value == "login":
			http.Redirect(w, r, "https://login.test/?rd=x", http.StatusFound)
		case c.Value == "broken":
			panic(http.ErrAbortHandler)
		case c.Value == "long":
			w.WriteHeader(403)
			w.Write(make([]byte, mostBody+1))
		case c.Value == "late":
			<-r.Context().Done()
		case c.Value == "nobody":
			w.WriteHeader(204)
		default:
			w.Header().Set("Remote-User", c.Value)
			w.Header()["Remote-Groups"] = []string{"a", "b"}
			w.Header().Set("X-Forwarded-Email", "a@b")
			w.Header().Set("X-Secret", "s")
			w.Header().Set("Set-Cookie", "seen=1")
		}
	}
}

// serve serves a site of one application, which tells what it gets, behind a judge.
func serve(t *testing.T, asked *questions, c Config) (addr string) {
	t.Helper()
	return serveLogging(t, asked, c, testenv.Quiet())
}

func serveLogging(t *testing.T, asked *questions, c Config, log *slog.Logger) (addr string) {
	t.Helper()
	auth := httptest.NewServer(judge(asked))
	t.Cleanup(auth.Close)
	auth.Config.ErrorLog = nil
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %q\n", r.Method, r.RequestURI, body)
		r.Header.Write(w)
		fmt.Fprintf(w, "trailer %v", r.Trailer)
	}))
	t.Cleanup(app.Close)
	if c.To == nil {
		c.To = []string{auth.URL}
	}
	rs, wrong := New([]Config{c}, func(i int, timeout time.Duration) (*proxy.Proxy, []site.Fault) {
		return open(t, c.To[0], proxy.Config{TotalTimeout: timeout, Host: "backend", Tries: 1}), nil
	})
	testenv.MustEqual(t, len(wrong), 0, "%v", wrong)
	s := &site.Site{Steps: []site.Step{rs.Strip}, Guards: []site.Guard{rs}}
	s.Routes = []site.Route{{Match: testenv.Need(site.OptionalPattern(""))(t), Handler: open(t, app.URL, proxy.Config{}).Handle}}
	return strings.TrimPrefix(knottest.Serve(t, &knot.Server{Handler: s.Handle, ErrorLog: log}), "http://")
}

func open(t *testing.T, url string, c proxy.Config) *proxy.Proxy {
	t.Helper()
	c.Backends, c.Log = []string{url}, testenv.Quiet()
	p := testenv.Need(proxy.New(c))(t)
	t.Cleanup(p.Close)
	return p
}

// ask sends the text of a request, which has Host and Connection already, and returns the response.
func ask(t *testing.T, addr, text string) (*http.Response, string) {
	t.Helper()
	nc := testenv.Dial(t, addr)
	line, rest, _ := strings.Cut(text, "\n")
	_, err := io.WriteString(nc, line+" HTTP/1.1\r\nHost: site.test\r\n"+strings.ReplaceAll(rest, "\n", "\r\n")+"\r\n")
	testenv.Must(t, err)
	method, _, _ := strings.Cut(line, " ")
	resp := testenv.Need(http.ReadResponse(bufio.NewReader(nc), &http.Request{Method: method}))(t)
	defer resp.Body.Close()
	return resp, string(testenv.Need(io.ReadAll(resp.Body))(t))
}

var copying = Config{Match: "/in/**", Path: "/verify?x=1", Copy: []string{"Remote-User", "Remote-Groups", "X-Forwarded-Email", "Remote-Name"}, SetCookie: true}

// TestPasses: a request that passes gets what the answer says, and nothing that its client has forged.
func TestPasses(t *testing.T) {
	var asked questions
	addr := serve(t, &asked, copying)
	forged := "remote-USER: root\nRemote-User: root\nRemote-Name: root\nRemote_User: root\nX-Forwarded-Email: root@b\nX-Forwarded-Method: DELETE\n" +
		"X-Forwarded-Uri: /open\nX-Forwarded-For: 10.0.0.1\nX-Forwarded-Host: evil.test\nX-Original-URL: /open\nForwarded: for=10.0.0.1\n"
	resp, got := ask(t, addr, "POST /in/a%2Fb?q=%2F\nCookie: as=alice\nX-Other: o\nConnection: Remote-User, X-Forwarded-Uri\n"+forged+
		"Transfer-Encoding: chunked\nTrailer: Remote-User\n\n3\nabc\n0\nRemote-User: root\n")
	testenv.MustEqual(t, resp.StatusCode, 200, got)
	testenv.Equal(t, resp.Header.Get("Set-Cookie"), "seen=1", "Set-Cookie")
	testenv.Equal(t, resp.Header.Get("X-Secret"), "", "X-Secret")
	for _, want := range []string{`POST /in/a%2Fb?q=%2F "abc"`, "Remote-User: alice\r\n", "Remote-Groups: a, b\r\n", "X-Forwarded-Email: a@b\r\n", "X-Other: o\r\n"} {
		testenv.Contains(t, got, want)
	}
	testenv.Equal(t, strings.Contains(got, "root") || strings.Contains(got, "10.0.0.1") || strings.Contains(got, "X-Secret"), false, got)
	testenv.MustEqual(t, len(asked.get()), 1, "questions")
	question := asked.get()[0]
	for _, want := range []string{"GET /verify?x=1\nbody \"\"\n", "Cookie: as=alice\n", "X-Forwarded-Method: POST\n", "X-Forwarded-Uri: /in/a%2Fb?q=%2F\n",
		"X-Forwarded-Host: site.test\n", "X-Forwarded-Proto: http\n", "X-Forwarded-For: 127.0.0.1\n"} {
		testenv.Contains(t, question, want)
	}
	for _, never := range []string{"root", "10.0.0.1", "evil", "/open", "DELETE", "X-Other", "Forwarded: for", "Transfer"} {
		testenv.Equal(t, strings.Contains(question, never), false, "%s in %s", never, question)
	}
	// What the answer does not say stays unsaid, and where nobody is asked nothing is believed either.
	for _, text := range []string{"GET /in/\nCookie: as=nobody\n", "GET /out\nCookie: as=alice\n"} {
		resp, got = ask(t, addr, text+forged)
		testenv.Equal(t, resp.StatusCode, 200, got)
		testenv.Equal(t, strings.Contains(got, "root") || strings.Contains(got, "Remote"), false, got)
	}
	testenv.Equal(t, len(asked.get()), 2, "questions")
}

// TestRefusals: what the client gets in place of the response.
func TestRefusals(t *testing.T) {
	var asked questions
	addr := serve(t, &asked, copying)
	for _, c := range []struct {
		text   string
		status int
		header string // and its value
		body   string // "": it is not looked at
	}{
		{"GET /in/", 401, "Www-Authenticate: Bearer", "who are you?"},
		{"POST /in/\nContent-Length: 3\n\nabc", 401, "Set-Cookie: from=auth", "who are you?"},
		{"HEAD /in/", 401, "Content-Length: 12", ""},
		{"GET /%69n//x", 401, "", "who are you?"},
		{"GET /out/../in/", 401, "", "who are you?"},
		{"GET /in%2Fx", 401, "", "who are you?"},
		{"GET /in/\nCookie: as=login", 302, "Location: https://login.test/?rd=x", ""},
		{"GET /in/\nCookie: as=alice\nConnection: Cookie", 401, "", "who are you?"},
		{"GET /in/\nCookie: as=broken", 502, "", ""},
		{"GET /in/\nCookie: as=long", 502, "", ""},
		{"GET /out", 200, "", ""},
	} {
		resp, got := ask(t, addr, c.text+"\n")
		testenv.Equal(t, resp.StatusCode, c.status, c.text)
		if name, value, _ := strings.Cut(c.header, ": "); name != "" {
			testenv.Equal(t, slices.Contains(resp.Header[textproto.CanonicalMIMEHeaderKey(name)], value), true, "%s: %v", c.text, resp.Header)
		}
		if c.body != "" {
			testenv.Equal(t, got, c.body, c.text)
		}
	}
	short := copying
	short.Timeout = "20ms"
	resp, _ := ask(t, serve(t, &asked, short), "GET /in/\nCookie: as=late\n")
	testenv.Equal(t, resp.StatusCode, 504, "late")
	nobody := testenv.Need(net.Listen("tcp", "127.0.0.1:0"))(t)
	nobody.Close()
	deserted := copying
	deserted.To = []string{"http://" + nobody.Addr().String()}
	resp, _ = ask(t, serve(t, &asked, deserted), "GET /in/\nCookie: as=alice\n")
	testenv.Equal(t, resp.StatusCode, 502, "nobody listens")
}

// TestConnectionsAreKept: questions share connections of a pool.
func TestConnectionsAreKept(t *testing.T) {
	var asked questions
	var conns atomic.Int32
	auth := httptest.NewUnstartedServer(judge(&asked))
	auth.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			conns.Add(1)
		}
	}
	auth.Start()
	defer auth.Close()
	c := copying
	c.To = []string{auth.URL}
	url := "http://" + serve(t, &asked, c) + "/in/"
	loops := runtime.GOMAXPROCS(0) // each has its own connections
	for n := range 4 * loops {
		r := testenv.Need(http.NewRequest("GET", url, nil))(t)
		r.Header.Set("Cookie", "as="+[]string{"alice", "", "login", "bob"}[n%4])
		resp := testenv.Need(http.DefaultTransport.RoundTrip(r))(t)
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	http.DefaultClient.CloseIdleConnections()
	testenv.Equal(t, len(asked.get()), 4*loops, "questions")
	testenv.Equal(t, int(conns.Load()) <= loops, true, "%d connections for them", conns.Load())
}

// TestLeavers: clients that leave while they are asked about are no failures of the server.
func TestLeavers(t *testing.T) {
	var asked questions
	var log testenv.Buffer
	addr := serveLogging(t, &asked, copying, slog.New(slog.NewTextHandler(&log, nil)))
	for i := range 400 {
		nc := testenv.Dial(t, addr).(*net.TCPConn)
		io.WriteString(nc, "GET /in/ HTTP/1.1\r\nHost: h\r\nCookie: as=alice\r\n\r\n")
		for range i % 40 * 50 {
			runtime.Gosched()
		}
		nc.SetLinger(0)
		nc.Close()
	}
	resp := testenv.Need(http.Get("http://" + addr + "/out"))(t)
	resp.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	testenv.Equal(t, strings.Contains(log.String(), "failed"), false, "the log says %.500s", log.String())
}

func TestFaults(t *testing.T) {
	for _, c := range []struct {
		says string
		Config
	}{
		{"match: pattern", Config{Match: "a/b"}},
		{`path: "verify" is not a path; want one like /verify`, Config{Path: "verify"}},
		{"path: ", Config{Path: "/a b"}},
		{"pass: header Content-Length is about the connection", Config{Pass: []string{"Content-Length"}}},
		{"pass: header X-forwarded-For is what the proxy says", Config{Pass: []string{"X-forwarded-For"}}},
		{"copy: header Host is what Config.Host says", Config{Copy: []string{"Host"}}},
		{"copy: header Remote_User may be taken for another one", Config{Copy: []string{"Remote_User"}}},
		{"copy: header name \"a b\" is not a token", Config{Copy: []string{"a b"}}},
		{"copy: authorization of a client is taken out of its request, and pass has it too", Config{Copy: []string{"authorization"}}},
		{`timeout: "0s" is not a time`, Config{Timeout: "0s"}},
		{"to: nowhere", Config{To: []string{"nowhere"}}},
	} {
		_, wrong := New([]Config{c.Config}, func(int, time.Duration) (p *proxy.Proxy, wrong []site.Fault) {
			if c.To != nil {
				wrong = []site.Fault{{Key: "to", Err: fmt.Errorf("%s", c.To[0])}}
			}
			return nil, wrong
		})
		testenv.MustEqual(t, len(wrong[0]), 1, "%s: %v", c.says, wrong)
		testenv.Contains(t, fmt.Sprintf("%s: %v", wrong[0][0].Key, wrong[0][0].Err), c.says)
	}
	_, wrong := New(make([]Config, Most+1), nil)
	testenv.Equal(t, len(wrong[Most]), 1, "too many tables")
}
