package sharedlimit

import (
	"context"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/limit"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/site"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/knottest"
)

// A server is one of a fleet, with a limit of 10 an hour.
type server struct {
	t     *testing.T
	rules limit.Rules
	log   testenv.Buffer
}

func newServer(t *testing.T, url string) *server {
	s := &server{t: t}
	f := testenv.Need(New(url, slog.New(slog.NewTextHandler(&s.log, nil))))(t)
	var faults map[int][]site.Fault
	s.rules, faults = limit.New([]limit.Config{{Rate: "10/h", Key: []string{"header:X-Key"}}})
	testenv.MustEqual(t, len(faults), 0, "faults")
	f.Add("test", s.rules[0])
	f.Start()
	t.Cleanup(f.Close)
	return s
}

// ask is the status of a request with a key, and how many more the client is told that it has.
func (s *server) ask(key string) (status int, left string) {
	request := testenv.Need(http.NewRequest("GET", "http://h/", nil))(s.t)
	request.Header.Set("X-Key", key)
	resp := knottest.Do(s.t, func(x *knot.Ctx) error {
		if answered, err := s.rules.Handle(x); answered {
			return err
		}
		return x.SendString(200, "text/plain", "")
	}, request)
	resp.Body.Close()
	_, left, _ = strings.Cut(resp.Header.Get("RateLimit"), "r=")
	left, _, _ = strings.Cut(left, ";")
	return resp.StatusCode, left
}

// TestFleet: two servers let in together what one would, count for themselves while Redis is away, and together again after that.
func TestFleet(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "redis.sock")
	stop := testenv.Redis(t, socket)
	a, b := newServer(t, "unix://"+socket), newServer(t, "unix://"+socket)
	let := 0
	for i := range 40 {
		s := []*server{a, b}[i%2]
		status, left := s.ask("k")
		if status == 200 {
			let++
			n := strconv.Itoa(max(0, 10-let))
			testenv.Until(t, "the other server knows "+n+" are left, not "+left, func() bool { return settled(t, socket, float64(let)) })
		}
	}
	testenv.True(t, let >= 10 && let <= 12, "%d requests of 10 were let in", let)
	for range 12 {
		a.ask("other")
	}
	testenv.Until(t, "the other key is used up", func() bool {
		status, _ := b.ask("other")
		return status == 429
	})

	stop()
	let = 0
	for i := range 40 {
		if status, _ := []*server{a, b}[i%2].ask("alone"); status == 200 {
			let++
		}
	}
	testenv.Equal(t, let, 20, "requests that the servers let in without Redis")
	for _, s := range []*server{a, b} {
		testenv.Until(t, "that Redis is away is told", func() bool { return strings.Contains(s.log.String(), "Redis can't be asked") })
	}
	testenv.Redis(t, socket)
	for i, s := range []*server{a, b} {
		testenv.Until(t, "that Redis is there is told", func() bool {
			s.ask(strconv.Itoa(rand.Int()))
			return strings.Contains(s.log.String(), "Redis is asked again")
		})
		testenv.Equal(t, strings.Count(s.log.String(), "\n"), 2, "lines of server %d: %s", i, s.log.String())
	}
}

// settled reports whether Redis knows of that many requests of all keys.
func settled(t *testing.T, socket string, requests float64) bool {
	c := redis.NewClient(&redis.Options{Network: "unix", Addr: socket})
	defer c.Close()
	sum := 0.0
	for _, key := range testenv.Need(c.Keys(context.Background(), "{knot}:test:*").Result())(t) {
		left := testenv.Need(c.PTTL(context.Background(), key).Result())(t)
		sum += left.Seconds() / 360 // a request is six minutes' worth
	}
	return math.Round(sum) >= requests
}

// TestRulesOfOneName: two sites with the same hosts and limits, at different addresses, both tell what was used; else what they note
// would grow for ever.
func TestRulesOfOneName(t *testing.T) {
	f := testenv.Need(New("redis://127.0.0.1:1", slog.New(slog.DiscardHandler)))(t)
	defer f.Close()
	var all [2]*server
	for i := range all {
		all[i] = &server{t: t}
		all[i].rules, _ = limit.New([]limit.Config{{Rate: "10/h", Key: []string{"header:X-Key"}}})
		f.Add("test", all[i].rules[0])
		all[i].ask("k")
	}
	testenv.Fails(t, f.tell(), "nobody is there")
	for i, s := range all {
		for uses := range s.rules[0].Uses(10) {
			t.Errorf("rule %d has not told of %v", i, uses)
		}
	}
}

// TestOddKeys: what something else has written into a key of ours counts as nothing.
func TestOddKeys(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "redis.sock")
	testenv.Redis(t, socket)
	s := newServer(t, "unix://"+socket)
	s.ask("k")
	testenv.Until(t, "Redis knows of the request", func() bool { return settled(t, socket, 1) })
	c := redis.NewClient(&redis.Options{Network: "unix", Addr: socket})
	defer c.Close()
	keys := testenv.Need(c.Keys(t.Context(), "{knot}:test:*").Result())(t)
	for _, odd := range []string{"odd", "-1", "inf"} {
		testenv.Must(t, c.Set(t.Context(), keys[0], odd, 0).Err())
		s.ask("k")
		testenv.Until(t, "Redis counts again after "+odd, func() bool { return testenv.Need(c.PTTL(t.Context(), keys[0]).Result())(t) > 0 })
	}
	testenv.Equal(t, s.log.String(), "", "the log")
}

func TestURLs(t *testing.T) {
	for _, url := range []string{"", "localhost", "http://:secret@a", "redis://:secret@a:b:c"} {
		_, err := New(url, slog.New(slog.DiscardHandler))
		testenv.ErrorSays(t, err, "want the URL of a Redis", url)
		testenv.True(t, !strings.Contains(err.Error(), "secret"), "%v", err)
	}
	f, err := New("redis://:secret@127.0.0.1:1/2", slog.New(slog.DiscardHandler))
	testenv.Must(t, err)
	f.Close()
}
