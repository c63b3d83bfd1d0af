package proxy

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/netpoll"
)

// discovering is a front whose backends come from the function that is returned.
func discovering(t *testing.T, c Config) (*front, func(backends []string, weights []int) error) {
	set := make(chan func([]string, []int) error, 1)
	c.Discover = func(ctx context.Context, fn func([]string, []int) error) {
		set <- fn
		<-ctx.Done()
	}
	f := serve(t, c, 2)
	f.p.Start()
	return f, <-set
}

// TestDiscover: requests go to the backends of the last list, and what is under way at one that is not in it ends there.
func TestDiscover(t *testing.T) {
	f, set := discovering(t, Config{Sticky: &Sticky{Cookie: "to"}, Check: &Check{}})
	if status, _ := f.get("/"); status != 503 {
		t.Errorf("status %d without backends", status)
	}
	arrived, answer := make(chan bool), make(chan bool)
	slow := behind(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			arrived <- true
			<-answer
		}
		w.Write([]byte("slow"))
	})
	others := behinds(t, 2)
	testenv.Must(t, set([]string{slow}, nil))
	testenv.Equal(t, f.stats().Failures["no backend"], 1, "requests without a backend")
	ended := make(chan string)
	go func() {
		body, _ := f.asks("/slow")
		ended <- body
	}()
	<-arrived
	testenv.Must(t, set(others[:1], nil))
	for range 4 {
		body, _ := f.asks("/")
		testenv.Equal(t, body, "0", "the backend that is left")
	}
	all := f.p.Stats()
	testenv.Equal(t, len(all), 2, "backends, with the one that ends")
	testenv.Equal(t, all[1].Outstanding, 1, "requests at the one that ends")
	testenv.Equal(t, all[1].Up, false, "that it gets requests")
	old := f.p.leaving[0]
	close(answer)
	testenv.Equal(t, <-ended, "slow", "the request under way")
	testenv.Until(t, "the backend that was removed has ended", func() bool { return len(f.p.Stats()) == 1 })
	if _, err := old.pool.Get(context.Background()); err == nil {
		t.Error("the pool of a backend that was removed is open")
	}

	// One that stays is the same: its cookie, its counts; its weight is the new one.
	_, cookie := f.asks("/")
	stays := f.p.all()[0]
	testenv.Must(t, set([]string{others[1], others[0]}, []int{1, 5}))
	testenv.Equal(t, f.p.all()[1], stays, "the backend that stays")
	testenv.Equal(t, f.p.Stats()[1].Weight, 5.0, "its weight")
	for range 4 {
		body, _ := f.asks("/", "Cookie: "+cookie.String())
		testenv.Equal(t, body, "0", "the backend of the cookie")
	}
	testenv.Must(t, set(others[1:], nil))
	body, again := f.asks("/", "Cookie: "+cookie.String())
	testenv.Equal(t, body, "1", "the backend once that of the cookie is gone")
	testenv.Equal(t, again != nil, true, "another cookie")

	// A list with a mistake is not taken.
	testenv.ErrorSays(t, set([]string{"http://nowhere"}, nil), "want http://host:port")
	testenv.ErrorSays(t, set([]string{others[0], others[0]}, nil), "is there twice")
	testenv.ErrorSays(t, set(make([]string, 0), []int{1}), "want one for each")
	many := strings.Split(strings.Repeat("http://127.0.0.1:1 ", MaxBackends+1), " ")[:MaxBackends+1]
	for i := range many {
		many[i] += strings.Repeat("0", i%3) + string(rune('0'+i/3%10)) + string(rune('0'+i/30))
	}
	testenv.ErrorSays(t, set(many, nil), "65 backends; want 64 at most")
	testenv.Equal(t, len(f.p.all()), 1, "backends after lists with mistakes")
	testenv.Must(t, set(nil, nil))
	if status, _ := f.get("/"); status != 503 {
		t.Errorf("status %d after an empty list", status)
	}
	f.p.Close()
	testenv.ErrorIs(t, set(others, nil), context.Canceled)
}

// TestDiscoverGroups: canary and copies have lists of their own. Without a canary the first group answers, and without backends of its
// own a mirror drops copies.
func TestDiscoverGroups(t *testing.T) {
	type setter = func([]string, []int) error
	finds := func() (func(context.Context, func([]string, []int) error), chan setter) {
		set := make(chan setter, 1)
		return func(ctx context.Context, fn func([]string, []int) error) {
			set <- fn
			<-ctx.Done()
		}, set
	}
	findCanary, canary := finds()
	findCopies, copies := finds()
	backends := behinds(t, 3)
	copied, seen := recorder(t)
	begun, answer := make(chan bool), make(chan bool)
	slow := behind(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" { // not a check
			begun <- true
			<-answer
		}
	})
	f := serve(t, Config{
		Backends: backends[:1], Sticky: &Sticky{Cookie: "to"}, Check: &Check{},
		Canary: &Canary{Discover: findCanary, Header: "Canary"}, Mirror: &Mirror{Discover: findCopies},
	}, 2)
	f.p.Start()
	setCanary, setCopies := <-canary, <-copies

	body, _ := f.asks("/", "Canary: 1")
	testenv.Equal(t, body, "0", "the backend without a canary")
	testenv.Equal(t, len(f.p.Stats()), 1, "backends")
	testenv.Equal(t, f.p.mirror.to.dropped.Load(), 1, "copies that were dropped")
	testenv.Must(t, setCanary(backends[1:2], nil))
	testenv.Must(t, setCopies([]string{copied}, nil))
	body, cookie := f.asks("/", "Canary: 1")
	testenv.Equal(t, body, "1", "the backend of the canary")
	testenv.Contains(t, <-seen, "GET / ")

	// A copy under way at a backend that is removed ends there, and its connections are closed.
	testenv.Must(t, setCopies([]string{slow}, nil))
	f.asks("/slow")
	<-begun
	testenv.Must(t, setCopies([]string{copied}, nil))
	copier := f.p.mirror.to
	old := copier.leaving[len(copier.leaving)-1]
	close(answer)
	testenv.Until(t, "the copies have ended", func() bool { return f.p.mirror.inFlight.Load() == 0 })
	_, err := old.pool.Get(context.Background())
	testenv.ErrorIs(t, err, netpoll.ErrPoolClosed)

	testenv.Must(t, setCanary(backends[1:], nil))
	for range 3 {
		body, _ = f.asks("/", "Canary: 1", "Cookie: "+cookie.String())
		testenv.Equal(t, body, "1", "the backend of the cookie")
	}
	testenv.ErrorSays(t, setCanary(backends, nil), "Canary.Backends: the backend "+backends[0]+" is there twice")
	testenv.Must(t, setCanary(nil, nil))
	body, _ = f.asks("/", "Canary: 1", "Cookie: "+cookie.String())
	testenv.Equal(t, body, "0", "the backend once the canary is gone")
}

// TestDiscoverLosesNoRequest: each request is answered while lists take turns, with one try.
func TestDiscoverLosesNoRequest(t *testing.T) {
	f, set := discovering(t, Config{Tries: 1})
	backends := behinds(t, 3)
	testenv.Must(t, set(backends[:2], nil))
	done := make(chan bool)
	go func() {
		defer close(done)
		for i := range 200 {
			testenv.Must(t, set([]string{backends[i%3], backends[(i+1)%3]}, nil))
		}
	}()
	for over := false; !over; {
		select {
		case <-done:
			over = true
		default:
		}
		f.asks("/")
	}
	// A request that has chosen a backend just before its removal goes to another one.
	b := f.p.all()[0]
	testenv.Must(t, set(nil, nil))
	if room, gone := b.enter(); room || !gone {
		t.Error("a backend that was removed takes a request up")
	}
}

// TestDiscoverMovesTheQueue: a request that waits for its turn at a backend which is removed goes to another one, with one try.
func TestDiscoverMovesTheQueue(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		f, set := discovering(t, Config{HTTP2: http2, MaxConns: 1, QueueTimeout: time.Hour, Tries: 1})
		arrived, answer := make(chan bool, 2), make(chan bool)
		testenv.Must(t, set([]string{behind(t, func(w http.ResponseWriter, _ *http.Request) {
			arrived <- true
			<-answer
			w.Write([]byte("removed"))
		})}, nil))
		asks := func() (body chan string) {
			body = make(chan string, 1)
			go func() {
				text, _ := f.asks("/")
				body <- text
			}()
			return body
		}
		first := asks()
		<-arrived
		second := asks()
		testenv.Until(t, "a wait", func() bool { return f.stats().Queued == 1 })
		testenv.Must(t, set(behinds(t, 1), nil))
		close(answer)
		testenv.Equal(t, <-first, "removed", "HTTP/2 %v: the request under way", http2)
		testenv.Equal(t, <-second, "0", "HTTP/2 %v: the request that waited", http2)
	}
}

// TestDiscoverComesBack: a backend that comes back before its requests have ended is up.
func TestDiscoverComesBack(t *testing.T) {
	f, set := discovering(t, Config{})
	backends := behinds(t, 2)
	testenv.Must(t, set(backends[:1], nil))
	before := f.p.all()[0]
	before.enter()
	testenv.Must(t, set(backends[1:], nil))
	testenv.Must(t, set(backends[:1], nil))
	all := f.p.Stats()
	testenv.MustEqual(t, len(all), 2, "backends, with the one that ends")
	for _, s := range all {
		testenv.Equal(t, s.Name == before.name && s.Up, true, "it is up: %+v", s)
	}
	before.exit()
}

// TestDiscoverKeepsCounts: what is counted with the first backend stays with it when another one becomes the first.
func TestDiscoverKeepsCounts(t *testing.T) {
	none := func(context.Context, func([]string, []int) error) {}
	p := testenv.Need(New(Config{Discover: none, Mirror: &Mirror{Discover: none}}))(t)
	defer p.Close()
	p.noBackend.Add(1)
	p.mirror.to.dropped.Add(1)
	testenv.Equal(t, len(p.Stats()), 0, "backends")
	for _, found := range [][]string{{"http://b:1"}, {"http://a:1", "http://b:1"}} {
		for _, one := range []*Proxy{p, p.mirror.to} {
			testenv.Must(t, one.setBackends(&one.stable, "", found, nil))
		}
		var got []uint64
		for _, s := range p.Stats() {
			got = append(got, s.Failures["no backend"], s.Dropped)
		}
		want := [][]uint64{{1, 0, 0, 1}, {0, 0, 1, 0, 0, 0, 0, 1}}[len(found)-1]
		testenv.EqualSlices(t, got, want, "counts of %v", found)
	}
}

// TestDiscoverStartsSlowly: a backend that comes later than the first that are found begins with a part of its weight.
func TestDiscoverStartsSlowly(t *testing.T) {
	backends := behinds(t, 3)
	for _, fixed := range [][]string{nil, backends[:1]} {
		f, set := discovering(t, Config{Backends: fixed, SlowStart: 1 << 40})
		testenv.Must(t, set(fixed, nil))
		testenv.Must(t, set(backends[:2], nil))
		testenv.Must(t, set(backends, nil))
		all := f.p.Stats()
		testenv.EqualSlices(t, []float64{all[0].Weight, all[1].Weight}, []float64{1, 1}, "weights of the first that are found")
		testenv.AtMost(t, all[2].Weight, 0.2, "weight of a later one")
	}
}
