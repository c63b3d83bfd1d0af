package cache

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/knottest"
	"github.com/capriccio-go/capriccio/task"
)

// A clock is one that tests set.
type clock struct{ ns atomic.Int64 }

var epoch = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

func (c *clock) now() time.Time       { return epoch.Add(time.Duration(c.ns.Load())) }
func (c *clock) pass(d time.Duration) { c.ns.Add(int64(d)) }
func (c *clock) date() string         { return c.now().Format(http.TimeFormat) }

func sizeOf(text string) (n int64, err error) {
	_, err = fmt.Sscan(text, &n)
	return n, err
}

// A backend answers as tests say, and counts.
type backend struct {
	answer atomic.Pointer[func(x *knot.Ctx) error]
	asked  atomic.Int64
	mu     sync.Mutex
	last   string // request, as lines
	*clock        // that Date is by
	dates  atomic.Bool
}

func (b *backend) says(fn func(x *knot.Ctx) error) {
	b.dates.Store(false)
	b.answer.Store(&fn)
}

// sends has it answer so: lines of a header, an empty one, and the body.
func (b *backend) sends(status int, lines ...string) {
	b.says(func(x *knot.Ctx) error {
		x.SetStatus(status)
		body := ""
		for i, l := range lines {
			if l == "" {
				body = strings.Join(lines[i+1:], "")
				break
			}
			name, value, _ := strings.Cut(l, ": ")
			innerOf(x).CopyHeader([]byte(name), []byte(value))
		}
		if status == 304 {
			return nil
		}
		_, err := x.WriteString(body)
		return err
	})
	b.dates.Store(strings.Contains(strings.Join(lines, "\n"), "Date: "))
}

func (b *backend) handle(x *knot.Ctx) error {
	b.asked.Add(1)
	var lines strings.Builder
	fmt.Fprintf(&lines, "%s %s %s\n", x.Method(), x.Target(), x.Host())
	x.EachHeader(func(name, value []byte) bool {
		fmt.Fprintf(&lines, "%s: %s\n", strings.ToLower(string(name)), value)
		return true
	})
	b.mu.Lock()
	b.last = lines.String()
	b.mu.Unlock()
	if !b.dates.Load() {
		innerOf(x).CopyHeader([]byte("Date"), []byte(b.date()))
	}
	return (*b.answer.Load())(x)
}

func (b *backend) request() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last
}

// A rig is a cache before a backend, on a loop.
type rig struct {
	*backend
	t     *testing.T
	cache *Cache
	addr  string
}

func newCache(t *testing.T, c Config, now func() time.Time) *Cache {
	t.Helper()
	made, wrong := New(c, "site", sizeOf, now, testenv.Quiet())
	for _, w := range wrong {
		t.Fatalf("%s: %v", w.Key, w.Err)
	}
	testenv.Must(t, made.Start())
	t.Cleanup(made.Close)
	return made
}

func newRig(t *testing.T, c Config) *rig {
	t.Helper()
	r := &rig{backend: &backend{clock: new(clock)}, t: t}
	r.cache = newCache(t, c, r.now)
	r.addr = serve(t, Set{r.cache}.Before(r.handle, testenv.Need(knot.ParseTrust())(t), isCanary))
	return r
}

// isCanary is for requests that the backend answers apart.
func isCanary(x *knot.Ctx) bool { return x.Header("X-Canary") != "" }

// serve runs a server for h, and returns its address.
func serve(t *testing.T, h knot.Handler) string {
	t.Helper()
	return strings.TrimPrefix(knottest.Serve(t, &knot.Server{Handler: h, ErrorLog: testenv.Quiet()}), "http://")
}

type answer struct {
	status int
	header http.Header
	body   string
}

// how is the member of Cache-Status that the cache has written, without its name and ttl.
func (a answer) how() string {
	all := a.header.Values("Cache-Status")
	if len(all) == 0 {
		return ""
	}
	how, _, _ := strings.Cut(strings.TrimPrefix(all[len(all)-1], "knot; "), "; ttl=")
	return how
}

// raw sends a request as it is.
func (r *rig) raw(text string) answer {
	r.t.Helper()
	nc := testenv.Dial(r.t, r.addr)
	defer nc.Close()
	io.WriteString(nc, text)
	method, _, _ := strings.Cut(text, " ")
	resp := testenv.Need(http.ReadResponse(bufio.NewReader(nc), &http.Request{Method: method}))(r.t)
	defer resp.Body.Close()
	return answer{resp.StatusCode, resp.Header, string(testenv.Need(io.ReadAll(resp.Body))(r.t))}
}

// ask sends a request with these header lines.
func (r *rig) ask(method, target string, lines ...string) answer {
	r.t.Helper()
	text := method + " " + target + " HTTP/1.1\r\nConnection: close\r\n"
	if !strings.Contains(strings.Join(lines, "\n"), "Host: ") {
		text += "Host: site.test\r\n"
	}
	for _, l := range lines {
		text += l + "\r\n"
	}
	return r.raw(text + "\r\n")
}

func (r *rig) get(target string, lines ...string) answer {
	r.t.Helper()
	return r.ask("GET", target, lines...)
}

// want asks for /, and compares how and the number of requests that the backend has had.
func (r *rig) want(how string, asked int64, lines ...string) answer {
	r.t.Helper()
	a := r.get("/", lines...)
	testenv.Equal(r.t, a.how(), how, "how, %q", lines)
	testenv.Equal(r.t, r.asked.Load(), asked, "requests at the backend, %q", lines)
	return a
}

func TestHit(t *testing.T) {
	r := newRig(t, Config{})
	r.sends(200, "Cache-Control: max-age=60", "Content-Type: text/plain", "X-Own: 1", "", "hello")
	a := r.want("fwd=miss; stored", 1)
	testenv.Equal(t, a.body, "hello")
	r.pass(10 * time.Second)
	a = r.want("hit", 1)
	testenv.Equal(t, a.body, "hello")
	testenv.Equal(t, a.header.Get("Age"), "10")
	testenv.Equal(t, a.header.Get("X-Own")+a.header.Get("Content-Type"), "1text/plain")
	testenv.Equal(t, len(a.header.Values("Date")), 1)
	r.pass(50 * time.Second)
	r.want("fwd=stale; stored", 2)
}

// TestStorm: a thousand clients that ask for the same are one request at the backend.
func TestStorm(t *testing.T) {
	const clients = 1000
	r := newRig(t, Config{})
	release := task.NewChan[struct{}](0)
	r.says(func(x *knot.Ctx) error {
		release.Recv()
		x.AddHeader("Cache-Control", "max-age=60")
		return x.SendString(200, "text/plain", strings.Repeat("storm ", 10_000))
	})
	transport := &http.Transport{MaxConnsPerHost: clients}
	defer transport.CloseIdleConnections()
	got := make(chan string, clients)
	for range clients {
		go func() {
			resp, err := (&http.Client{Transport: transport}).Get("http://" + r.addr + "/")
			if err != nil {
				got <- err.Error()
				return
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			got <- fmt.Sprint(resp.StatusCode, " ", len(body), " ", err)
		}()
	}
	testenv.Until(t, "all wait", func() bool {
		r.cache.mu.Lock()
		defer r.cache.mu.Unlock()
		for _, f := range r.cache.flights {
			f.mu.Lock()
			n := len(f.waiters)
			f.mu.Unlock()
			return n == clients
		}
		return false
	})
	release.Close()
	for range clients {
		testenv.Equal(t, <-got, "200 60000 <nil>")
	}
	testenv.Equal(t, r.asked.Load(), 1, "requests at the backend")
}
