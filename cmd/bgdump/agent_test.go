//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// scraped is a profile that an agent gave.
func scraped(t *testing.T, text string) *profile.Profile {
	t.Helper()
	return testenv.Need(profile.Parse(strings.NewReader(text)))(t)
}

// A program on the runtime, one that is traced and one that gives no graph: each has its metrics, and profiles of as many seconds as
// were asked for.
func TestAgent(t *testing.T) {
	clk := newFakeClock()
	clk.short = time.Minute // but for -timeout
	began := clk.Now()
	pods := serving(t, podFleet(t, func(i int) *bgraph.Snapshot {
		if i == 1 {
			return nil
		}
		return later(podGraph(t, i, began), clk.Now().Sub(began))
	}))
	traced := newProfiled("/debug/pprof/cmdline", "/debug/pprof/trace")
	list := writeFile(t, "targets.yml", fmt.Sprintf("- targets: ['%s/debug/bgraph/']\n  labels: {pod: shop}\n- targets: ['%s']\n  labels: {pod: bakery}\n- targets: ['%s/debug/bgraph/']\n  labels: {pod: away}\n",
		strings.TrimPrefix(pods, "http://")+"/0", strings.TrimPrefix(serving(t, traced), "http://"), strings.TrimPrefix(pods, "http://")+"/1"))
	get := getter(t, serveCommand(t, &surroundings{clock: clk}, "-serve", ":0", "-timeout", "1h", "-targets", list))
	text := get("/metrics", 200)
	for _, want := range []string{
		`bgraph_up{source="shop"} 1`, `bgraph_up{source="bakery"} 1`, `bgraph_up{source="away"} 0`,
		`bgraph_period_seconds{source="shop"} 60`, `bgraph_findings{source="bakery",severity="error"}`, `bgraph_place_waiting{source="shop",place="mutex `,
	} {
		testenv.Contains(t, text, want)
	}
	clk.mu.Lock()
	clk.set(clk.now.Add(40 * time.Second))
	clk.mu.Unlock()
	text = get("/metrics", 200)
	testenv.Contains(t, text, `bgraph_period_seconds{source="shop"} 40`, "the time since it was asked last")
	testenv.Equal(t, get("/metrics", 200), text, "for another Prometheus")
	testenv.Equal(t, strings.Join(traced.seconds(), " "), "1 1", "seconds of the traces")
	clk.mu.Lock()
	clk.set(clk.now.Add(sumEvery + 1500*time.Millisecond))
	clk.mu.Unlock()
	get("/metrics", 200)
	testenv.Equal(t, strings.Join(traced.seconds(), " "), "1 1 1", "seconds of the traces")

	for _, c := range []struct{ query, types string }{
		{"source=shop&metric=wait&seconds=20", "wait"}, {"source=shop&seconds=20", "cpu wait ready count heap"}, {"source=bakery&metric=ready&seconds=20", "ready"},
	} {
		p := scraped(t, get(profileOfAgent+"?"+c.query, 200))
		var types []string
		for _, s := range p.SampleType {
			types = append(types, s.Type)
		}
		testenv.Equal(t, strings.Join(types, " "), c.types, c.query)
		testenv.True(t, len(p.Sample) > 0, "%s: no samples", c.query)
		if strings.HasPrefix(c.query, "source=shop") {
			testenv.Equal(t, p.DurationNanos, 20e9, c.query)
		}
	}
	testenv.Equal(t, strings.Join(traced.seconds(), " "), "1 1 1 20", "seconds of the traces")
	testenv.Contains(t, get(profileOfAgent+"?source=away", 502), "the answer at /1/debug/bgraph/ is 503 Service Unavailable")
	testenv.Contains(t, get("/", 200), profileOfAgent+"?metric=wait&seconds=10&source=bakery\n")

	for path, c := range map[string]struct {
		status int
		want   string
	}{
		profileOfAgent + "?source=shop-9":                       {404, `there is no source "shop-9"; there are shop, bakery, away`},
		profileOfAgent + "?metric=time":                         {400, `metric="time"; want cpu, wait, ready, count, heap`},
		profileOfAgent + "?seconds=0":                           {400, `seconds="0"; want a number from 1 to 120`},
		profileOfAgent + "?seconds=121":                         {400, `want a number from 1 to 120`},
		profileOfAgent + "?seconds=1.5":                         {400, `want a number from 1 to 120`},
		profileOfAgent + "?seconds=9&seconds=9":                 {400, `seconds is given 2 times`},
		profileOfAgent + "?sekonds=9":                           {400, `unknown parameter "sekonds"; there are metric, seconds, source`},
		profileOfAgent + "?a=%zz":                               {400, `the query can't be read`},
		profileOfAgent + "?source=%1b[2J%ff%0a":                 {404, `there is no source`},
		"/x":                                                    {404, `there are /metrics and /debug/bgraph/pprof`},
		profileOfAgent + "?metric=" + strings.Repeat("x", 5000): {400, `want cpu`},
	} {
		text := get(path, c.status)
		testenv.Contains(t, text, c.want, path)
		testenv.True(t, len(text) < 500 && !strings.Contains(text, "\x1b"), "the answer to %s is %q", path, text)
	}
}

// Scrapes ask for waits and CPU time as profiles of their own at about the same time, though there can be one trace at a time: a trace
// that is under way is for both, and the metrics don't wait for it.
func TestProfilesOfOneTrace(t *testing.T) {
	traced := newProfiled("/debug/pprof/cmdline", "/debug/pprof/trace")
	begun, goOn := make(chan bool), make(chan bool)
	server := serving(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("seconds") == "9" {
			begun <- true
			<-goOn
		}
		traced.ServeHTTP(w, r)
	}))
	ctx, cancel := context.WithCancel(context.Background())
	set := testenv.Need(parse([]string{"-serve", ":0", server}, io.Discard))(t)
	a := testenv.Need(newAgent(ctx, set, &surroundings{clock: newFakeClock(), stderr: io.Discard}))(t)
	defer a.running.Wait()
	defer cancel()
	metrics := func() string {
		w := httptest.NewRecorder()
		a.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		return w.Body.String()
	}
	key := captureKey{server, 9}
	first := testenv.Need(a.capture(key))(t)
	<-begun
	testenv.Equal(t, metrics(), "", "metrics of a program that has not answered yet")
	second := testenv.Need(a.capture(key))(t)
	testenv.Equal(t, second, first, "the capture of another scrape")
	goOn <- true
	<-first.done
	testenv.Must(t, first.err)
	third := testenv.Need(a.capture(key))(t)
	testenv.True(t, third != first, "a scrape gets what was over before it began")
	<-begun
	a.next = time.Time{}
	testenv.Contains(t, metrics(), fmt.Sprintf("bgraph_up{source=%q} 1\n", server), "of the trace that was taken for a profile")
	goOn <- true
	<-third.done
	testenv.Equal(t, strings.Join(traced.seconds(), " "), "9 9", "seconds of the traces")
}

// A program that does not answer takes the metrics of the others not away, and no more than so many scrapes wait for it.
func TestAgentWithASilentProgram(t *testing.T) {
	silent := serving(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	clk := newFakeClock()
	pod := serving(t, podFleet(t, func(i int) *bgraph.Snapshot { return podGraph(t, i, clk.Now()) })) + "/0/debug/bgraph/"
	address := serveCommand(t, &surroundings{clock: clk}, "-serve", ":0", silent, pod)
	r := testenv.Need(http.NewRequest("GET", address+"/metrics", nil))(t)
	r.Header.Set("X-Prometheus-Scrape-Timeout-Seconds", "1")
	var text string
	testenv.Until(t, "the other program has answered in time", func() bool {
		resp := testenv.Need(http.DefaultClient.Do(r))(t)
		defer resp.Body.Close()
		text = readAll(t, resp.Body)
		return strings.Contains(text, fmt.Sprintf("bgraph_up{source=%q} 1\n", pod))
	})
	testenv.Contains(t, text, fmt.Sprintf("bgraph_up{source=%q} 0\n", silent))

	full := make(chan bool, mostScrapes+1)
	for range mostScrapes + 1 {
		go func() {
			resp, err := http.Get(address + profileOfAgent + "?source=" + url.QueryEscape(silent))
			if err != nil {
				return // the agent has ended
			}
			defer resp.Body.Close()
			text, _ := io.ReadAll(resp.Body)
			full <- resp.StatusCode == 503 && strings.Contains(string(text), "64 scrapes are under way")
		}()
	}
	testenv.True(t, <-full, "one scrape more than there may be is not refused")
}

// A client that leaves while the programs are asked does not make them look as if they were away: the next scrape asks them anew.
func TestScrapeThatIsGivenUp(t *testing.T) {
	clk := newFakeClock()
	pods := podFleet(t, func(i int) *bgraph.Snapshot { return podGraph(t, i, clk.Now()) })
	var slow atomic.Bool
	slow.Store(true)
	asked := make(chan bool, 1)
	pod := serving(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if slow.Load() {
			asked <- true
			<-r.Context().Done()
			return
		}
		pods.ServeHTTP(w, r)
	})) + "/0/debug/bgraph/"
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var log testenv.Buffer
	set := testenv.Need(parse([]string{"-serve", ":0", pod}, io.Discard))(t)
	a := testenv.Need(newAgent(ctx, set, &surroundings{clock: clk, stderr: &log}))(t)
	metrics := func(ctx context.Context) string {
		w := httptest.NewRecorder()
		a.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil).WithContext(ctx))
		return w.Body.String()
	}
	client, leave := context.WithCancel(ctx)
	ended := make(chan string)
	go func() { ended <- metrics(client) }()
	<-asked
	leave()
	<-ended
	slow.Store(false)
	testenv.Contains(t, metrics(ctx), fmt.Sprintf("bgraph_up{source=%q} 1\n", pod), "the next scrape")
	testenv.Equal(t, log.String(), "", "what is said")
}

// A profile is taken as long as a client waits for it, so that there are no more at a time than scrapes.
func TestProfileThatIsGivenUp(t *testing.T) {
	asked, left := make(chan bool), make(chan bool)
	server := serving(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- true
		<-r.Context().Done()
		left <- true
	}))
	ctx, cancel := context.WithCancel(context.Background())
	set := testenv.Need(parse([]string{"-serve", ":0", server}, io.Discard))(t)
	a := testenv.Need(newAgent(ctx, set, &surroundings{clock: newFakeClock(), stderr: io.Discard}))(t)
	defer a.running.Wait()
	defer cancel()
	ended := make(chan bool)
	scrape := func() (leave context.CancelFunc) {
		client, leave := context.WithCancel(ctx)
		go func() {
			a.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", profileOfAgent, nil).WithContext(client))
			ended <- true
		}()
		return leave
	}
	for range 2 {
		first := scrape()
		<-asked
		second := scrape()
		testenv.Until(t, "the second client waits, too", func() bool {
			a.mu.Lock()
			defer a.mu.Unlock()
			c := a.captures[captureKey{seconds: usualSeconds}]
			return c != nil && c.clients == 2
		})
		first()
		<-ended
		select {
		case <-left:
			t.Fatal("the capture ended with its first client")
		default:
		}
		second()
		<-left
		<-ended
		testenv.Equal(t, len(a.captures), 0, "captures")
	}
}

func TestAgentNeedsPrograms(t *testing.T) {
	for _, c := range []struct{ want, args string }{
		{"-serve needs a running program", shopFile},
		{"-serve needs a running program", recordedTwoDays(t) + "/shop-2"},
		{`-serve "x"; want an address like :8000`, "http://127.0.0.1:1"},
		{"-interval with -serve says how often to send metrics", "-interval=1s http://127.0.0.1:1"},
		{"-focus has no meaning with -serve", "-focus=x http://127.0.0.1:1"},
		{"-serve and -svg exclude each other", "-svg http://127.0.0.1:1"},
		{"there is no target to ask", "-targets=" + writeFile(t, "t.yml", "- targets: [':']\n- targets: ['::']")},
	} {
		command(t, append([]string{"-serve", "x"}, strings.Fields(c.args)...)...).fails(t, c.want)
	}
}
