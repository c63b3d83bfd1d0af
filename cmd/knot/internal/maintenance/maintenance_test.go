package maintenance

import (
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/knottest"
)

// TestSwitch: the site is out of service while the file exists, within a second, but for clients that are allowed. The word of a
// client about its address does not count, that of a trusted proxy does. The folder of the file need not be there either, as /run is
// empty after a start of the machine.
func TestSwitch(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	file := filepath.Join(dir, "off")
	var log testenv.Buffer
	s, wrong := New(&Config{File: file, Allow: []string{"192.0.2.0/24", "2001:db8::1"}, RetryAfter: "90s"}, testenv.Quiet())
	testenv.MustEqual(t, len(wrong), 0)
	var clock atomic.Int64
	clock.Store(time.Now().UnixNano())
	s.now = func() time.Time { return time.Unix(0, clock.Load()) }
	handler := func(x *knot.Ctx) error {
		if answered, err := s.Handle(x); answered {
			return err
		}
		return x.SendString(200, "text/plain", "here")
	}
	trusting := knottest.Serve(t, &knot.Server{Handler: handler, Trust: testenv.Need(knot.ParseTrust("127.0.0.1"))(t)})
	open := knottest.Serve(t, &knot.Server{Handler: handler})
	expect := func(url, client string, status int) {
		t.Helper()
		r := testenv.Need(http.NewRequest("GET", url, nil))(t)
		r.Header.Set("X-Forwarded-For", client)
		resp := testenv.Need(http.DefaultClient.Do(r))(t)
		resp.Body.Close()
		testenv.Equal(t, resp.StatusCode, status, "%s", client)
		if status == 503 {
			testenv.Equal(t, resp.Header.Get("Retry-After")+" "+resp.Header.Get("Cache-Control"), "90 no-store")
		}
	}
	later := func() { clock.Add(int64(time.Second)) }
	expect(open, "203.0.113.1", 200)
	testenv.Must(t, os.Mkdir(dir, 0o755))
	testenv.Must(t, os.WriteFile(file, nil, 0o644))
	expect(open, "203.0.113.1", 200) // what was seen counts for a second
	later()
	expect(open, "203.0.113.1", 503)
	expect(open, "192.0.2.7", 503)
	for client, status := range map[string]int{"203.0.113.1": 503, "192.0.2.7": 200, "::ffff:192.0.2.7": 200, "2001:db8::1": 200, "2001:db8::2": 503} {
		expect(trusting, client, status)
	}
	again, _ := New(&Config{File: file}, testenv.Quiet())
	again.now = func() time.Time { return time.Unix(0, 0) } // another request looks
	begun := knottest.Serve(t, &knot.Server{Handler: func(x *knot.Ctx) error { return testenv.Err(again.Handle(x)) }})
	testenv.Equal(t, testenv.Ask(t, begun, "GET /").StatusCode, 503, "after a start or SIGHUP")
	testenv.Must(t, os.Remove(file))
	later()
	expect(open, "203.0.113.1", 200)
	testenv.Must(t, os.WriteFile(file, nil, 0o644))
	later()
	expect(open, "203.0.113.1", 503)
	testenv.Must(t, os.RemoveAll(dir)) // it is a file now, so that nothing can be said of what is below
	testenv.Must(t, os.WriteFile(dir, nil, 0o644))
	s.log = slog.New(slog.NewTextHandler(&log, nil))
	for range 3 {
		later()
		expect(open, "203.0.113.1", 503)
	}
	testenv.Equal(t, strings.Count(log.String(), "can't be looked for"), 1, log.String())
	http.DefaultClient.CloseIdleConnections()
}

// TestFaults: what is wrong with a table.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		Config
		key, says string
	}{
		{Config{}, "file", "say which file"},
		{Config{File: "/off", Allow: []string{"10.0.0.0/8", "::1", "office"}}, "allow", `"office" is neither unix: nor an address`},
		{Config{File: "/off", RetryAfter: "500ms"}, "retry-after", `"500ms" is not a time of a second or more`},
		{Config{File: "/off", RetryAfter: "soon"}, "retry-after", `"soon" is not a time`},
	} {
		_, wrong := New(&c.Config, testenv.Quiet())
		testenv.MustEqual(t, len(wrong), 1, "%+v", c)
		testenv.Equal(t, wrong[0].Key, c.key)
		testenv.ErrorSays(t, wrong[0].Err, c.says)
	}
}
