package discovery

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/capriccio-go/capriccio/internal/kube"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot/proxy"
)

// A manualClock lets a wait be over when the test says so.
type manualClock struct{ waits chan wanted }

// A wanted is a wait under way.
type wanted struct {
	d    time.Duration
	over chan time.Time
}

func (c manualClock) After(d time.Duration) <-chan time.Time {
	if d == FirstTime || d == answerTime || d == 5*time.Minute+answerTime {
		return nil // of an answer that comes
	}
	over := make(chan time.Time, 1)
	go func() { c.waits <- wanted{d, over} }()
	return over
}

// A finding is a Finder at work.
type finding struct {
	t      *testing.T
	clock  manualClock
	sets   chan string
	log    testenv.Buffer
	sur    Surroundings
	fail   error // of set
	finder *Finder
}

func newFinding(t *testing.T) *finding {
	f := &finding{t: t, clock: manualClock{make(chan wanted, 100)}, sets: make(chan string, 100)}
	f.sur.Clock = f.clock
	return f
}

// run finds the backends of a list until the test ends.
func (f *finding) run(to ...string) {
	f.t.Helper()
	_, finder, err := New(to, proxy.MaxBackends, 0, f.sur, slog.New(slog.NewTextHandler(&f.log, nil)))
	testenv.Must(f.t, err)
	f.finder = finder
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan bool)
	go func() {
		defer close(ended)
		finder.Run(ctx, func(backends []string, weights []int) error {
			text := ""
			for i, b := range backends {
				text += fmt.Sprint(b, "*", weights[i], " ")
			}
			fail := f.fail // the test may change it once it has the list
			f.sets <- text
			return fail
		})
	}()
	f.t.Cleanup(func() { cancel(); <-ended })
}

// gets is the next list.
func (f *finding) gets(want string) {
	f.t.Helper()
	testenv.MustEqual(f.t, strings.TrimSpace(<-f.sets), want, "backends")
}

// again ends the next wait, which must be that long, once before has been called.
func (f *finding) again(d time.Duration, before ...func()) {
	f.t.Helper()
	w := <-f.clock.waits
	testenv.Equal(f.t, w.d, d, "the wait")
	for _, fn := range before {
		fn()
	}
	w.over <- time.Time{}
}

// lines waits until as many log lines as wanted have text, and fails if more have it.
func (f *finding) lines(text string, want int) {
	f.t.Helper()
	testenv.Soon(func() bool { return strings.Count(f.log.String(), text) >= want })
	testenv.Equal(f.t, strings.Count(f.log.String(), text), want, "lines with %q in %s", text, f.log.String())
}

// dnsServer answers questions "name TYPE" with the records of zone, or a code: "SERVFAIL".
func (f *finding) dnsServer(zone map[string]string) (change func(name, records string)) {
	type entry struct{ name, records string }
	changes, questions := make(chan entry), make(chan chan map[string]string)
	go func() {
		for {
			select {
			case e := <-changes:
				zone[e.name] = e.records
			case q, open := <-questions:
				if !open {
					return
				}
				copied := make(map[string]string)
				for k, v := range zone {
					copied[k] = v
				}
				q <- copied
			}
		}
	}()
	handler := dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		answer := make(chan map[string]string)
		questions <- answer
		m := new(dns.Msg)
		m.SetReply(q)
		records, known := (<-answer)[q.Question[0].Name+" "+dns.TypeToString[q.Question[0].Qtype]]
		code, isCode := dns.StringToRcode[records]
		_, overUDP := w.RemoteAddr().(*net.UDPAddr)
		switch {
		case !known:
			m.Rcode = dns.RcodeNameError
		case isCode:
			m.Rcode = code
		case strings.HasPrefix(records, "long ") && overUDP:
			m.Truncated = true
		default:
			for line := range strings.SplitSeq(strings.TrimPrefix(records, "long "), "|") {
				if line != "" {
					m.Answer = append(m.Answer, testenv.Need(dns.NewRR(line))(f.t))
				}
			}
		}
		w.WriteMsg(m)
	})
	var pc net.PacketConn
	var ln net.Listener
	for ln == nil { // both have one port
		pc = testenv.Need(net.ListenPacket("udp", "127.0.0.1:0"))(f.t)
		var err error
		if ln, err = net.Listen("tcp", pc.LocalAddr().String()); err != nil {
			pc.Close()
		}
	}
	for _, s := range []*dns.Server{{PacketConn: pc, Handler: handler}, {Listener: ln, Handler: handler}} {
		started, ended := make(chan bool), make(chan bool)
		s.NotifyStartedFunc = func() { close(started) }
		go func() { s.ActivateAndServe(); close(ended) }()
		<-started
		f.t.Cleanup(func() { s.Shutdown(); <-ended })
	}
	host, port, _ := net.SplitHostPort(pc.LocalAddr().String())
	f.sur.Resolv = func() (*dns.ClientConfig, error) {
		return &dns.ClientConfig{Servers: []string{host}, Port: port, Search: []string{"cluster.test"}, Ndots: 1, Timeout: 60, Attempts: 1}, nil
	}
	return func(name, records string) { changes <- entry{name, records} }
}

// TestDNS: addresses of both families, again when their time to live is over, the last ones while DNS fails or answers nothing.
func TestDNS(t *testing.T) {
	f := newFinding(t)
	change := f.dnsServer(map[string]string{
		"api.cluster.test. A":    "api.cluster.test. 30 CNAME real.test.|real.test. 300 A 10.0.0.2|real.test. 300 A 10.0.0.1",
		"api.cluster.test. AAAA": "api.cluster.test. 60 AAAA fd00::1",
	})
	f.run("http://fixed:1", "dns+http://api:8080")
	f.gets("http://fixed:1*1")
	f.gets("http://10.0.0.1:8080*1 http://10.0.0.2:8080*1 http://[fd00::1]:8080*1 http://fixed:1*1")
	change("api.cluster.test. A", "api.cluster.test. 1 A 10.0.0.3")
	change("api.cluster.test. AAAA", "")
	f.again(30 * time.Second)
	f.gets("http://10.0.0.3:8080*1 http://fixed:1*1")
	for _, fault := range []string{"SERVFAIL", "", "REFUSED"} {
		f.again(5*time.Second, func() { change("api.cluster.test. A", fault) }) // one second is below the least
	}
	f.again(5*time.Second, func() { change("api.cluster.test. A", "long api.cluster.test. 999999 A 10.0.0.4") }) // over TCP
	f.gets("http://10.0.0.4:8080*1 http://fixed:1*1")
	f.again(maxRefresh)
	f.lines("backends can't be found; those found before stay", 1)
	f.lines("backends can be found again", 1)
	f.lines("the backends have changed", 3)

	// The configuration is read again while DNS fails: what is known goes on.
	change("api.cluster.test. A", "SERVFAIL")
	_, next, err := New([]string{"dns+http://api:8080"}, proxy.MaxBackends, 0, f.sur, slog.New(slog.DiscardHandler))
	testenv.Must(t, err)
	next.Adopt(f.finder)
	ctx, cancel := context.WithCancel(t.Context())
	var got []string
	go next.Run(ctx, func(backends []string, _ []int) error {
		got = backends
		return nil
	})
	next.Wait()
	cancel()
	testenv.Equal(t, fmt.Sprint(got), "[http://10.0.0.4:8080]", "backends of before")
}

// TestDNSInPart: addresses that a failed question was for stay until it is answered, while those of other questions change.
func TestDNSInPart(t *testing.T) {
	f := newFinding(t)
	const record = "_http._tcp.api.test. 60 SRV 1 0 8080 "
	change := f.dnsServer(map[string]string{
		"_http._tcp.api.test. SRV": record + "a.test.|" + record + "b.test.", "b.test. A": "b.test. 90 A 10.0.0.2",
		"a.test. A": "a.test. 90 A 10.0.0.1", "a.test. AAAA": "a.test. 90 AAAA fd00::1",
	})
	f.run("srv+http://_http._tcp.api.test")
	f.gets("http://10.0.0.1:8080*1 http://10.0.0.2:8080*1 http://[fd00::1]:8080*1")
	f.again(time.Minute, func() {
		change("a.test. AAAA", "SERVFAIL") // one family of a server
		change("b.test. A", "REFUSED")     // a whole server
		change("a.test. A", "a.test. 90 A 10.0.0.3")
	})
	f.gets("http://10.0.0.2:8080*1 http://10.0.0.3:8080*1 http://[fd00::1]:8080*1")
	f.again(DefaultRefresh, func() { change("a.test. A", "a.test. 90 A 10.0.0.4") }) // it fails once more
	f.gets("http://10.0.0.2:8080*1 http://10.0.0.4:8080*1 http://[fd00::1]:8080*1")
	f.again(DefaultRefresh, func() { change("a.test. A", "SERVFAIL") })
	f.again(DefaultRefresh, func() { change("a.test. AAAA", ""); change("a.test. A", "a.test. 90 A 10.0.0.5") })
	f.gets("http://10.0.0.2:8080*1 http://10.0.0.5:8080*1")
	f.lines("backends can't be found; those found before stay", 1) // when no server had an answer
}

// TestDNSWithoutAnAnswer: the first answer is none, and requests have no backend until there is one.
func TestDNSWithoutAnAnswer(t *testing.T) {
	f := newFinding(t)
	change := f.dnsServer(map[string]string{})
	f.run("dns+https://api.test:443")
	w := <-f.clock.waits
	testenv.Until(t, "the failure is told", func() bool { return strings.Contains(f.log.String(), "there is no such name") })
	change("api.test. A", "api.test. 5 A 10.0.0.1")
	w.over <- time.Time{}
	f.gets("https://10.0.0.1:443*1")
}

// TestSRV: the servers that come first, with their weights.
func TestSRV(t *testing.T) {
	f := newFinding(t)
	f.dnsServer(map[string]string{
		"_http._tcp.api.test. SRV": "_http._tcp.api.test. 60 SRV 1 40000 8080 a.test.|_http._tcp.api.test. 60 SRV 1 20000 8081 b.test.|_http._tcp.api.test. 60 SRV 1 0 8082 a.test.|" +
			"_http._tcp.api.test. 60 SRV 1 5 8083 missing.test.|_http._tcp.api.test. 60 SRV 2 9 8084 a.test.",
		"a.test. A": "a.test. 90 A 10.0.0.1", "b.test. A": "b.test. 20 A 10.0.0.2",
	})
	f.run("srv+http://_http._tcp.api.test")
	f.gets("http://10.0.0.1:8080*1000 http://10.0.0.1:8082*1 http://10.0.0.2:8081*500")
	f.again(20 * time.Second)

	f = newFinding(t)
	const record = "_http._tcp.api.test. 60 SRV "
	f.dnsServer(map[string]string{ // a weight among servers that come later changes nothing
		"_http._tcp.api.test. SRV": record + "1 60 8080 a.test.|" + record + "1 40 8081 a.test.|" + record + "2 65535 8082 a.test.",
		"a.test. A":                "a.test. 90 A 10.0.0.1",
	})
	f.run("srv+http://_http._tcp.api.test")
	f.gets("http://10.0.0.1:8080*60 http://10.0.0.1:8081*40")
}

// TestFile: the list of a file, again and again; a mistake in it changes nothing.
func TestFile(t *testing.T) {
	f := newFinding(t)
	name := filepath.Join(t.TempDir(), "api.yml")
	write := func(text string) { testenv.Must(t, os.WriteFile(name, []byte(text), 0o600)) }
	write("- targets: ['10.0.0.1:80', 'unix:/run/a']\n- targets: ['10.0.0.2:80']\n  labels: {__scheme__: https, zone: a}\n")
	f.run("file:" + name)
	f.gets("http://10.0.0.1:80*1 https://10.0.0.2:80*1 unix:/run/a*1")
	for _, text := range []string{"", "- targets: 5", "targets: []"} {
		f.again(DefaultRefresh, func() { write(text) })
	}
	w := <-f.clock.waits
	f.lines("backends can't be found", 1)
	f.fail = errors.New("not a backend")
	write("- targets: ['bad']")
	w.over <- time.Time{}
	f.gets("http://bad*1")
	f.again(DefaultRefresh)
	f.gets("http://bad*1")
	w = <-f.clock.waits
	f.lines("a list of backends can't be used", 1)
	f.fail = nil
	write("[]")
	w.over <- time.Time{}
	f.gets("")
	w = <-f.clock.waits
	testenv.Must(t, os.Remove(name))
	testenv.Must(t, syscall.Mkfifo(name, 0o600)) // whose writer does not come
	w.over <- time.Time{}
	f.lines("not a regular file", 1)
}

// TestTooManyBackends: of more than a proxy may have some are taken, and nearly the same ones when one goes.
func TestTooManyBackends(t *testing.T) {
	_, finder, err := New([]string{"dns+http://a.test:1"}, proxy.MaxBackends, 0, Surroundings{}, slog.New(slog.DiscardHandler))
	testenv.Must(t, err)
	var list []backend
	for i := range 3 * proxy.MaxBackends {
		list = append(list, backend{fmt.Sprint(i), 1})
	}
	finder.lists["dns+http://a.test:1"] = list
	all := finder.together()
	testenv.Equal(t, len(all), proxy.MaxBackends, "backends")
	finder.lists["dns+http://a.test:1"] = slices.DeleteFunc(list, func(b backend) bool { return b == all[0] })
	fewer := finder.together()
	stay := 0
	for _, b := range fewer {
		if slices.Contains(all, b) {
			stay++
		}
	}
	testenv.Equal(t, stay, proxy.MaxBackends-1, "backends that stay")
}

// TestEndpointSlices: the pods of a service that are ready, as they come and go.
func TestEndpointSlices(t *testing.T) {
	f := newFinding(t)
	slice := func(version, ready string) string {
		return `{"metadata":{"name":"api-1","resourceVersion":"` + version + `"},"endpoints":[{"addresses":["10.0.0.1"],"conditions":{"ready":true}},{"addresses":["10.0.0.2"],"conditions":{"ready":` + ready +
			`}},{"addresses":["fd00::3"]},{"addresses":["api.example"]}],"ports":[{"name":"http","port":8080},{"name":"","port":9}]}`
	}
	token := filepath.Join(t.TempDir(), "token")
	next := make(chan string, 9) // answers
	api := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var text string
		select {
		case text = <-next:
		case <-r.Context().Done():
			return
		}
		code, body, _ := strings.Cut(text, " ")
		want := testenv.Need(os.ReadFile(token))(t)
		testenv.Equal(t, r.Header.Get("Authorization"), "Bearer "+string(want), "the token")
		testenv.Equal(t, r.URL.Path, "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices", "the path")
		testenv.Equal(t, r.URL.Query().Get("labelSelector"), "kubernetes.io/service-name=api", "the selector")
		if code == "403" {
			w.WriteHeader(403)
		}
		io.WriteString(w, body)
		for code == "watch" {
			w.(http.Flusher).Flush()
			select {
			case text = <-next:
			case <-r.Context().Done():
				return
			}
			code, body, _ = strings.Cut(text, " ")
			io.WriteString(w, body)
		}
	}))
	api.Config.ErrorLog = log.New(io.Discard, "", 0)
	api.StartTLS()
	t.Cleanup(api.Close)
	at := testenv.Need(url.Parse(api.URL))(t)
	f.sur.Account = kube.Account{Host: at.Hostname(), Port: at.Port(), Dir: filepath.Dir(token)}
	for name, text := range map[string]string{"ca.crt": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: api.Certificate().Raw})), "token": "first", "namespace": "shop"} {
		testenv.Must(t, os.WriteFile(filepath.Join(filepath.Dir(token), name), []byte(text), 0o600))
	}
	list := func(version string, items ...string) string {
		return `200 {"kind":"EndpointSliceList","metadata":{"resourceVersion":"` + version + `"},"items":[` + strings.Join(items, ",") + `]}`
	}
	next <- list("5", slice("5", "false"))
	f.run("k8s+http://api:http")
	f.gets("http://10.0.0.1:8080*1 http://[fd00::3]:8080*1")
	next <- `watch {"type":"MODIFIED","object":` + slice("6", "true") + "}\n"
	f.gets("http://10.0.0.1:8080*1 http://10.0.0.2:8080*1 http://[fd00::3]:8080*1")
	next <- `watch {"type":"MODIFIED","object":` + strings.ReplaceAll(slice("7", "true"), `"http"`, `"web"`) + "}\n"
	testenv.Until(t, "the missing port is told", func() bool { return strings.Contains(f.log.String(), "no port called http") })
	next <- `watch {"type":"MODIFIED","object":` + slice("8", "true") + "}\n"
	testenv.Until(t, "the port is there again", func() bool { return strings.Contains(f.log.String(), "can be found again") })
	testenv.Must(t, os.WriteFile(token, []byte("second"), 0o600))
	next <- `end {"type":"ERROR","object":{"kind":"Status","code":410}}` + "\n"
	next <- `403 {"kind":"Status","message":"no","code":403}`
	f.again(5 * time.Second)
	testenv.Until(t, "the refusal is told", func() bool { return strings.Contains(f.log.String(), "may not list EndpointSlices") })
	next <- list("9", slice("9", "false"))
	f.again(5 * time.Second)
	f.gets("http://10.0.0.1:8080*1 http://[fd00::3]:8080*1")
	next <- `watch {"type":"DELETED","object":` + slice("10", "false") + "}\n"
	testenv.Until(t, "the missing service is told", func() bool { return strings.Contains(f.log.String(), "has no EndpointSlice") })
	next <- `watch {"type":"ADDED","object":{"metadata":{"name":"b","resourceVersion":"11"},"endpoints":[],"ports":[]}}` + "\n"
	f.gets("")
}

func TestNew(t *testing.T) {
	make := func(to ...string) (*Finder, error) {
		_, f, err := New(to, proxy.MaxBackends, 0, Surroundings{}, slog.New(slog.DiscardHandler))
		return f, err
	}
	for _, test := range []struct {
		to   []string
		name string
	}{
		{[]string{"dns+https://a.test:1", "dns+https://a.test:2", "https://a.test:3", "dns+http://b.test:4"}, "a.test"},
		{[]string{"dns+https://a.test:1", "https://b.test:1"}, ""}, {[]string{"srv+https://_a._tcp.b"}, ""}, {[]string{"k8s+https://a.b:1"}, ""},
		{[]string{"dns+php:9000"}, ""}, {[]string{"dns+https://a.test:1", "file:/x"}, ""},
	} {
		f, err := make(test.to...)
		testenv.Must(t, err)
		testenv.Equal(t, f.ServerName(), test.name, "%v", test.to)
	}
	if f, err := make("http://a:1"); f != nil || err != nil {
		t.Error(f, err)
	}
	for text, want := range map[string]string{
		"dns+http://a": "want dns+http://NAME:PORT", "dns+http://10.0.0.1:80": "want dns+", "dns+ftp://a:1": "want dns+", "dns+http://a:1/x": "want dns+", "dns+": "want dns+",
		"srv+http://a:1": "without a port", "srv+": "without a port", "k8s+http://a": "want k8s+http://SERVICE.NAMESPACE:PORT", "k8s+http://A.b:1": "want k8s+", "k8s+http://a.b.c:1": "want k8s+",
		"file:": "want file:",
	} {
		testenv.ErrorSays(t, testenv.Err(make(text)), want, text)
	}
}
