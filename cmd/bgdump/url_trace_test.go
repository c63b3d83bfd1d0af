package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/pprof"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

const goldenTrace = "../../internal/gotrace/testdata/go1.26.trace"

// A profiled is a server with some of the handlers of net/http/pprof, whose traces are a file.
type profiled struct {
	*http.ServeMux
	mu    sync.Mutex
	asked []string // guarded by mu: for how many seconds
}

func newProfiled(cmdline, trace string) *profiled {
	p := &profiled{ServeMux: http.NewServeMux()}
	if cmdline != "" {
		p.HandleFunc(cmdline, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			io.WriteString(w, "/opt/bakery\x00-v")
		})
	}
	if trace != "" {
		p.HandleFunc(trace, func(w http.ResponseWriter, r *http.Request) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.asked = append(p.asked, r.FormValue("seconds"))
			http.ServeFile(w, r, goldenTrace)
		})
	}
	return p
}

// seconds are those that were asked for, without the first look.
func (p *profiled) seconds() (out []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.asked {
		if s != "0.001" {
			out = append(out, s)
		}
	}
	return out
}

func serving(t *testing.T, h http.Handler) string {
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

func answers(code int, header, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if name, value, ok := strings.Cut(header, ": "); ok {
			w.Header().Set(name, value)
		}
		http.Error(w, text, code)
	}
}

// Each answer that is no trace leads to one message that says what to do, before any word of a trace.
func TestServersThatGiveNoTrace(t *testing.T) {
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<!DOCTYPE html><html></html>") })
	partial := newProfiled("/debug/pprof/cmdline", "")
	partial.Handle("/debug/pprof/", http.HandlerFunc(pprof.Index)) // knows no profile of that name
	login := http.NewServeMux()
	login.Handle("/login", page)
	login.Handle("/", http.RedirectHandler("/login", http.StatusFound))
	busy := newProfiled("/debug/pprof/cmdline", "")
	busy.Handle("/debug/pprof/trace", answers(500, "", "Could not enable tracing: tracing is already enabled"))
	hurried := newProfiled("/debug/pprof/cmdline", "")
	hurried.Handle("/debug/pprof/trace", answers(400, "", "profile duration exceeds server's WriteTimeout"))
	odd := newProfiled("/debug/pprof/cmdline", "")
	odd.HandleFunc("/debug/pprof/trace", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "{}") })
	moved := serving(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://"+r.Host+"/", http.StatusMovedPermanently)
	}))
	strange := newProfiled("", "")
	strange.Handle("/", answers(503, "", "in maintenance"))
	raw := testenv.Serve(t, func(c net.Conn) { io.WriteString(c, "-ERR unknown command\r\n") })
	secure := httptest.NewUnstartedServer(page)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	closed := httptest.NewServer(page)
	closed.Close()
	for name, c := range map[string]struct{ source, want string }{
		"nothing":      {serving(t, http.NotFoundHandler()), `/debug/pprof/trace is 404 Not Found: 404 page not found. If this is a Go program, let it import _ "net/http/pprof"`},
		"no trace":     {serving(t, partial), `serves profiles but no execution trace (the answer at /debug/pprof/trace is 404 Not Found: Unknown profile): where the program lists the handlers of net/http/pprof, let it add /debug/pprof/trace: pprof.Trace`},
		"pages only":   {serving(t, page), `the answer at /debug/pprof/trace is a web page, neither a graph nor a trace. If this is a Go program`},
		"login":        {serving(t, login), "/login; perhaps you have to log in"},
		"moved":        {moved, ": it sends us to " + strings.Replace(moved, "http:", "https:", 1) + ", which fails: http: server gave HTTP response to HTTPS client\n"},
		"taken":        {serving(t, busy), "somebody takes a trace of it just now, and there can be one at a time: Could not enable tracing: tracing is already enabled; try again"},
		"write limit":  {serving(t, hurried), "-seconds 1 takes a shorter trace"},
		"no such":      {serving(t, odd), "the answer at /debug/pprof/trace is no execution trace"},
		"maintenance":  {serving(t, strange), "503 Service Unavailable: in maintenance"},
		"forbidden":    {serving(t, answers(403, "", "for admins")), "403 Forbidden: for admins"},
		"password":     {serving(t, answers(401, "WWW-Authenticate: Basic realm=x", "no")), "the answer is 401 Unauthorized: it wants a name and a password, as in http://NAME:PASSWORD@HOST:PORT"},
		"token":        {serving(t, answers(401, "WWW-Authenticate: Bearer", "no")), `curl -H "Authorization: Bearer TOKEN"`},
		"proxy":        {serving(t, answers(407, "", "no")), "HTTP_PROXY=http://NAME:PASSWORD@HOST:PORT"},
		"not HTTP":     {"http://" + raw, "does not speak HTTP"},
		"certificate":  {secure.URL, "SSL_CERT_FILE"},
		"TLS":          {strings.Replace(secure.URL, "https:", "http:", 1), "this server speaks TLS: write https://"},
		"no TLS":       {strings.Replace(serving(t, page), "http:", "https:", 1), "this server does not speak TLS: write http://"},
		"nobody":       {closed.URL, "no program listens there"},
		"no port":      {strings.TrimPrefix(closed.URL, "http://"), "no program listens there"},
		"named itself": {serving(t, page) + "/debug/pprof/trace", "the answer at /debug/pprof/trace is a web page"},
		"elsewhere":    {serving(t, http.NotFoundHandler()) + "/ops/trace", "the answer at /ops/trace is 404"},
	} {
		t.Run(name, func(t *testing.T) {
			r := commandIn(t, context.Background(), &surroundings{clock: systemClock{}}, "-timeout", "1m", c.source)
			r.fails(t, c.source, c.want)
			if strings.Count(r.errOut, "\n") != 1 || strings.Contains(r.errOut, "taking an execution trace") {
				t.Errorf("want one line and no word of a trace:\n%s", r.errOut)
			}
		})
	}
}

// A trace is found wherever it may be, is asked for once, and the price is named before.
func TestServersThatGiveTraces(t *testing.T) {
	private := func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if name, password, _ := r.BasicAuth(); name+":"+password != "me:secret" {
				answers(401, "WWW-Authenticate: Basic realm=x", "no")(w, r)
				return
			}
			h.ServeHTTP(w, r)
		})
	}
	moved := func(p *profiled) http.Handler {
		p.HandleFunc("/debug/", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/ops"+r.URL.RequestURI(), http.StatusFound)
		})
		return p
	}
	pages := func(p *profiled) http.Handler {
		p.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html></html>") })
		return p
	}
	away := func(to string) func(*profiled) http.Handler {
		return func(p *profiled) http.Handler {
			p.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, strings.Replace(to, "HOST", r.Host, 1)+r.URL.Path, http.StatusMovedPermanently)
			})
			return p
		}
	}
	closed := func(p *profiled) http.Handler {
		p.Handle("/", answers(401, "", "no"))
		return p
	}
	plain := func(p *profiled) http.Handler { return p }
	const cmdline, trace = "/debug/pprof/cmdline", "/debug/pprof/trace"
	for name, c := range map[string]struct {
		cmdline, trace string // where they are
		around         func(*profiled) http.Handler
		user, path     string
		seconds, shown string
	}{
		"all":                    {cmdline, trace, plain, "", "", "5", "bakery"},
		"trace only":             {"", trace, plain, "", "", "5", "127.0.0.1"},
		"of pages":               {"", trace, pages, "", "/", "5", "127.0.0.1"},
		"all else is closed":     {cmdline, trace, closed, "", "", "5", "bakery"},
		"all else is on TLS":     {cmdline, trace, away("https://HOST"), "me:secret@", "", "5", "bakery"},
		"all else is nowhere":    {cmdline, trace, away("http://127.0.0.1:1"), "", "", "5", "bakery"},
		"all else goes in turns": {cmdline, trace, away(""), "", "", "5", "bakery"},
		"prefix":                 {"/admin" + cmdline, "/admin" + trace, plain, "", "/admin", "5", "bakery"},
		"prefix and slash":       {"/admin" + cmdline, "/admin" + trace, plain, "", "/admin/debug/pprof", "5", "bakery"},
		"named itself":           {cmdline, trace, plain, "", trace, "5", "bakery"},
		"with seconds":           {cmdline, trace, plain, "", trace + "?seconds=2", "2", "bakery"},
		"another profile":        {cmdline, trace, plain, "", "/debug/pprof/goroutine?debug=1", "5", "bakery"},
		"elsewhere":              {"/ops/cmdline", "/ops/trace", plain, "", "/ops/trace?seconds=3", "3", "bakery"},
		"password":               {cmdline, trace, func(p *profiled) http.Handler { return private(p) }, "me:secret@", "", "5", "bakery"},
		"moved":                  {"/ops" + cmdline, "/ops" + trace, moved, "", "", "5", "bakery"},
		"moved and the password": {"/ops" + cmdline, "/ops" + trace, func(p *profiled) http.Handler { return private(moved(p)) }, "me:secret@", "", "5", "bakery"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProfiled(c.cmdline, c.trace)
			address := serving(t, c.around(p))
			r := commandIn(t, context.Background(), &surroundings{clock: systemClock{}}, "-timeout", "1m", strings.Replace(address, "http://", "http://"+c.user, 1)+c.path)
			if got := strings.Join(p.seconds(), ","); r.code != exitOK || got != c.seconds {
				t.Errorf("%d, %s; traced %s seconds, want %s", r.code, r.errOut, got, c.seconds)
			}
			if !strings.HasPrefix(r.out, c.shown) || strings.Count(r.errOut, "for "+c.seconds+" s; meanwhile that costs it") != 1 || strings.Contains(r.errOut, "secret") {
				t.Errorf("got %q and\n%.200s", r.errOut, r.out)
			}
		})
	}
}

// The trace of a stuck program is found although the handler of all other paths hangs or breaks off.
func TestTracesBesideAHandlerThatFails(t *testing.T) {
	for _, hangs := range []bool{true, false} {
		clk := newFakeClock()
		p := newProfiled("/debug/pprof/cmdline", "/debug/pprof/trace")
		p.HandleFunc("/", func(_ http.ResponseWriter, r *http.Request) {
			if hangs {
				clk.advance(time.Minute)
				<-r.Context().Done()
			}
			panic(http.ErrAbortHandler)
		})
		r := commandIn(t, context.Background(), &surroundings{clock: clk}, "-timeout", "1m", "-cpu=false", serving(t, p))
		if got := strings.Join(p.seconds(), ","); r.code != exitOK || got != "5" {
			t.Errorf("hangs: %v: %d, %s; traced %s seconds, want 5", hangs, r.code, r.errOut, got)
		}
	}
}

// A look that ends while a handler hangs, as one of the page or of a scrape, goes on with the next place the next time.
func TestLooksGoOnBehindAHandlerThatHangs(t *testing.T) {
	p := newProfiled("/debug/pprof/cmdline", "/debug/pprof/trace")
	ctx, cancel := context.WithCancel(t.Context())
	p.HandleFunc("/", func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	u := testenv.Need(url.Parse(serving(t, p)))(t)
	src := newURLSource(u, &surroundings{clock: newFakeClock(), stderr: io.Discard}, &settings{timeout: time.Minute})
	for range mostPlaces - 1 {
		_, err := src.Snapshot(ctx)
		testenv.True(t, err != nil, "a look while the handler hangs: %v", err)
		ctx, cancel = context.WithCancel(t.Context())
	}
	defer cancel()
	testenv.Need(src.Snapshot(ctx))(t)
}

func TestTraceOfAUnixSocket(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", file)
	if err != nil {
		t.Skip(err)
	}
	server := httptest.NewUnstartedServer(newProfiled("/debug/pprof/cmdline", "/debug/pprof/trace"))
	server.Listener.Close()
	server.Listener = ln
	server.Start()
	defer server.Close()
	r := commandIn(t, context.Background(), &surroundings{clock: systemClock{}}, "-timeout", "1m", file)
	if r.code != exitOK || !strings.HasPrefix(r.out, "bakery, an execution trace") {
		t.Errorf("%s\n%.200s", r.errOut, r.out)
	}
	server.Close()
	testenv.Must(t, keepSocket(file))
	commandIn(t, context.Background(), &surroundings{clock: systemClock{}}, file).fails(t, file, "no program listens there")
}

// keepSocket leaves a socket behind as a program does that was killed.
func keepSocket(file string) error {
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: file, Net: "unix"})
	if err == nil {
		ln.SetUnlinkOnClose(false)
		err = ln.Close()
	}
	return err
}

// A server that is slow to answer, or to send, does not hold bgdump up for longer than was said.
func TestSlowTraces(t *testing.T) {
	for name, want := range map[string]string{"no answer": "no answer within 5s; -timeout", "half a trace": "no answer within 15s; -timeout"} {
		t.Run(name, func(t *testing.T) {
			silent := name == "no answer"
			p, clk, came := newProfiled("", ""), newFakeClock(), make(chan bool, 1)
			p.HandleFunc("/debug/pprof/trace", func(w http.ResponseWriter, r *http.Request) {
				whole, _ := http.Dir(filepath.Dir(goldenTrace)).Open(filepath.Base(goldenTrace))
				defer whole.Close()
				if r.FormValue("seconds") == "0.001" && !silent {
					io.Copy(w, whole)
					return
				}
				if !silent {
					info, _ := whole.Stat()
					io.CopyN(w, whole, info.Size()-1000)
					w.(http.Flusher).Flush()
				}
				came <- true
				<-r.Context().Done()
			})
			address := serving(t, p)
			go func() {
				<-came
				clk.advance(time.Minute)
			}()
			commandIn(t, context.Background(), &surroundings{clock: clk}, address).fails(t, address, want)
		})
	}
}

// What a CPU profile beside the trace fails of is told.
func TestNoCPUProfile(t *testing.T) {
	p := newProfiled("/debug/pprof/cmdline", "/debug/pprof/trace")
	p.HandleFunc("/debug/pprof/profile", answers(500, "", "Could not enable CPU profiling: cpu profiling already in use"))
	address := serving(t, p)
	for flag, told := range map[string]bool{"-cpu": true, "-cpu=true": true, "-prune=2": true, "-cpu=false": false} {
		r := commandIn(t, context.Background(), &surroundings{clock: systemClock{}}, "-timeout", "1m", flag, address)
		if r.code != exitOK || strings.Contains(r.out, "there is no CPU profile: ") != told || strings.Contains(r.out, "cpu profiling already in use") != told {
			t.Errorf("%s: %s\n%.500s", flag, r.errOut, r.out)
		}
	}
}

// TestCutOff: a program that closes the connection instead of giving its trace, but has answered before, speaks HTTP.
func TestCutOff(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/trace", func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("seconds") != "0.001" {
			panic(http.ErrAbortHandler)
		}
		http.ServeFile(w, r, goldenTrace)
	})
	r := commandIn(t, context.Background(), &surroundings{clock: systemClock{}}, "-timeout", "1m", serving(t, mux))
	if r.code != exitFailed || !strings.Contains(r.errOut, "the connection was closed before there was an answer, though it has answered before") {
		t.Errorf("code %d, %s", r.code, r.errOut)
	}
}

// Traces of Go 1.24 and older have no clock. Of a running program each is a run of its own all the same.
func TestTracesWithoutAClock(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/trace", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFile(w, r, "../../internal/gotrace/testdata/releases/go1.24.trace")
	})
	u := testenv.Need(url.Parse(serving(t, mux) + "/debug/pprof/"))(t)
	clock := newFakeClock()
	src := newURLSource(u, &surroundings{clock: clock, stderr: io.Discard}, &settings{timeout: time.Minute, mode: modeHTTP})
	s := testenv.Need(src.Snapshot(context.Background()))(t)
	if s.Span <= 0 || !s.Taken.Equal(clock.Now()) || s.Taken.Sub(s.Program.Started) != s.Span.Duration() {
		t.Errorf("a trace of %v, begun at %v, ended at %v; the clock stands at %v", s.Span, s.Program.Started, s.Taken, clock.Now())
	}
}

// A reader that looks at a page all the time gets a trace of one second, and the next no sooner than 9 s after that began.
func TestLiveTracesArePaced(t *testing.T) {
	p := newProfiled("/debug/pprof/cmdline", "/debug/pprof/trace")
	u := testenv.Need(url.Parse(serving(t, p) + "/debug/pprof/"))(t)
	clock := newFakeClock()
	var told bytes.Buffer
	src := newURLSource(u, &surroundings{clock: clock, stderr: &told}, &settings{timeout: time.Minute, mode: modeHTTP})
	for range 3 {
		s := testenv.Need(src.Snapshot(context.Background()))(t)
		s.Nodes = nil // it is the caller's
	}
	testenv.Equal(t, fmt.Sprint(p.seconds()), "[1]", "within ten seconds: traces of seconds")
	src.next = clock.Now()
	s := testenv.Need(src.Snapshot(context.Background()))(t)
	if got := fmt.Sprint(p.seconds()); got != "[1 1]" || len(s.Nodes) == 0 || len(p.asked) != 3 || strings.Count(told.String(), "\n") != 1 {
		t.Errorf("after that: traces of %s seconds, %d nodes, %v, %q", got, len(s.Nodes), p.asked, told.String())
	}
}
