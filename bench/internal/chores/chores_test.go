package chores

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func flags(t *testing.T, args ...string) *Flags {
	t.Helper()
	f := NewFlags("test")
	testenv.Must(t, f.Parse(args))
	return f
}

// ask does a chore through a handler.
func ask(h http.Handler, method, target, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, target, strings.NewReader(body)))
	return w
}

func TestChoresAnswer(t *testing.T) {
	root := t.TempDir()
	testenv.Must(t, os.MkdirAll(filepath.Join(root, FilesPath), 0o777))
	testenv.Must(t, os.WriteFile(filepath.Join(root, FilesPath, "a"), []byte("file"), 0o666))
	f := flags(t, "-steps=100", "-root="+root)
	h := Handler(NewHost(f), f.Root)
	for _, c := range []struct {
		method, target, body string
		status               int
		want                 string
	}{
		{"GET", HelloPath, "", 200, HelloText},
		{"GET", DoPath + "?cpu=50us&sleep=1ms&alloc=5000", "", 200, DoneText},
		{"GET", LockPath + "?n=1&cpu=1us", "", 200, DoneText},
		{"GET", BackendPath, "", 200, DoneText},
		{"POST", ReleasePath, "", 200, DoneText},
		{"POST", UploadPath, "four", 200, "4"},
		{"GET", BytesPath + "?n=3", "", 200, "\x01\x00\x00"},
		{"GET", FilesPath + "a", "", 200, "file"},
		{"GET", "/nothing", "", 404, "404 page not found\n"},
	} {
		got := ask(h, c.method, c.target, c.body)
		if got.Code != c.status || got.Body.String() != c.want {
			t.Errorf("%s %s: %d %q, want %d %q", c.method, c.target, got.Code, got.Body, c.status, c.want)
		}
	}
	for _, query := range []string{"cpu=1", "sleep=x", "alloc=-1", "n=1.5", "fly=1", "alloc=2000000000", "first=101"} {
		if got := ask(h, "GET", DoPath+"?"+query, ""); got.Code != 400 {
			t.Errorf("%s: %d %q, want 400", query, got.Code, got.Body)
		}
	}
}

func TestOrdersChangeTheBackend(t *testing.T) {
	h := NewHost(flags(t))
	testenv.Must(t, h.Order("backend 7ms"))
	var slept time.Duration
	h.Sleep = func(d time.Duration) { slept = d }
	if ask(Handler(h, ""), "GET", BackendPath, ""); slept != 7*time.Millisecond {
		t.Errorf("slept %v, want 7ms", slept)
	}
	for _, line := range []string{"backend", "backend fast", "sing"} {
		testenv.Fails(t, h.Order(line), "%q is no error", line)
	}
}

func TestWaitersAreReleasedAndHoldWhatTheyHave(t *testing.T) {
	h := NewHost(flags(t))
	waits := make(chan struct{}, 3)
	h.Changed = announced{h.Changed, waits}
	handler := Handler(h, "")
	ended := make(chan int, 3)
	for range 3 {
		go func() { ended <- ask(handler, "GET", WaitPath+"?alloc=4096", "").Code }()
	}
	for range 3 {
		<-waits
	}
	select {
	case <-ended:
		t.Error("one did not wait")
	default:
	}
	ask(handler, "POST", ReleasePath, "")
	for range 3 {
		testenv.Equal(t, <-ended, 200, "status")
	}
}

// announced tells when somebody begins to wait.
type announced struct {
	Cond
	waits chan struct{}
}

func (a announced) Wait() {
	a.waits <- struct{}{}
	a.Cond.Wait()
}

func TestLimitRefusesWhoeverIsTooMuch(t *testing.T) {
	h := NewHost(flags(t, "-limit=2"))
	inside, leave := make(chan struct{}, 3), make(chan struct{})
	h.Sleep = func(time.Duration) { inside <- struct{}{}; <-leave }
	handler := Handler(h, "")
	ended := make(chan int, 2)
	for range 2 {
		go func() { ended <- ask(handler, "GET", DoPath+"?sleep=1s", "").Code }()
		<-inside
	}
	testenv.Equal(t, ask(handler, "GET", HelloPath, "").Code, 503, "the third")
	close(leave)
	if a, b := <-ended, <-ended; a != 200 || b != 200 {
		t.Errorf("the first two got %d and %d", a, b)
	}
	testenv.Equal(t, ask(handler, "GET", HelloPath, "").Code, 200, "after them")
}

func TestEventsComeUntilTheClientLeaves(t *testing.T) {
	h := NewHost(flags(t))
	server := httptest.NewServer(Handler(h, ""))
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	request := testenv.Need(http.NewRequestWithContext(ctx, "GET", server.URL+EventsPath+"?every=1ms", nil))(t)
	response := testenv.Need(http.DefaultClient.Do(request))(t)
	defer response.Body.Close()
	const event = "data: tick\n\n"
	got := make([]byte, 3*len(event))
	if _, err := io.ReadFull(response.Body, got); err != nil || string(got) != strings.Repeat(event, 3) {
		t.Errorf("got %q, %v", got, err)
	}
}
