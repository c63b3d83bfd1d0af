package browsertest

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/capriccio-go/capriccio/cmd/bgdump/web"
	"github.com/capriccio-go/capriccio/cmd/bgdump/web/internal/sample"
	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

var (
	chromium = flag.String("chromium", "", "the browser; \"\": $CHROMIUM, or what is in the PATH")
	need     = flag.Bool("need", false, "fail if there is no browser")
	shots    = flag.String("shots", "", "folder to keep pictures in")
)

// patience is how long a test waits for what it expects to see.
const patience = time.Minute

var browser struct {
	ctx  context.Context
	path string
	err  error
}

func TestMain(m *testing.M) {
	flag.Parse()
	path, err := findBrowser()
	if err != nil {
		browser.err = err
		os.Exit(m.Run())
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.Flag("lang", "en-US"), chromedp.Env("TZ=UTC"),
		chromedp.WSURLReadTimeout(2*time.Minute)) // a busy machine starts a browser slowly
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, end := chromedp.NewContext(allocator, chromedp.WithErrorf(func(string, ...any) {})) // of events that the driver does not know yet
	if err := chromedp.Run(ctx); err != nil {
		browser.err = fmt.Errorf("%s does not start: %w", path, err)
	}
	browser.ctx, browser.path = ctx, path
	status := m.Run()
	end()
	stop()
	os.Exit(status)
}

// named is the browser that somebody wants the tests to use.
func named() string { return cmp.Or(*chromium, os.Getenv("CHROMIUM")) }

func findBrowser() (string, error) {
	if path := named(); path != "" {
		return exec.LookPath(path)
	}
	names := []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("no browser: none of %s is in the PATH; name one with -chromium or CHROMIUM", strings.Join(names, ", "))
}

// A ticking source lets a second pass for its program with each question, unless it is
// held.
type ticking struct {
	*sample.Program
	mu   sync.Mutex
	held bool // guarded by mu
}

func (s *ticking) Snapshot(ctx context.Context) (*bgraph.Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.held {
		s.Advance(time.Second)
	}
	return s.Program.Snapshot(ctx)
}

// hold makes time stand still for the program.
func (s *ticking) hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = true
}

// settle makes time stand still for the program, and waits until the page has its last answer:
// what is compared, or clicked, stays as it is from then on.
func (b *tab) settle(src *ticking) {
	b.t.Helper()
	src.hold()
	b.until("document.querySelector('#status').dataset.level === 'still'")
}

// serve shows src on a port of its own until the test ends, or stop is called.
func serve(t *testing.T, src web.Source, addr string) (url string, stop func()) {
	t.Helper()
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- web.Serve(ctx, ln, src, web.Options{Interval: 250 * time.Millisecond}) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("serving: %v", err)
		}
	})
	t.Cleanup(stop)
	return "http://" + ln.Addr().String() + "/", stop
}

// A look is how a page is looked at.
type look struct {
	width, height int64
	dark          bool
	still         bool   // without motion
	hash          string // of the address
}

// A tab is a tab of the browser that shows the page.
type tab struct {
	t   *testing.T
	ctx context.Context
	url string

	mu       sync.Mutex
	messages []string // guarded by mu: of the console, and exceptions
	requests []string // guarded by mu
}

// open shows a page of src in a new tab and waits until figures are there. When the test
// ends, nothing may have been written to the console, nor asked for elsewhere.
func open(t *testing.T, src web.Source, l look) *tab {
	t.Helper()
	needBrowser(t)
	url, _ := serve(t, src, "127.0.0.1:0")
	return openURL(t, url, l)
}

func needBrowser(t *testing.T) {
	t.Helper()
	switch {
	case browser.err != nil && (*need || named() != ""):
		t.Fatal(browser.err)
	case browser.err != nil:
		t.Skip(browser.err)
	}
}

func openURL(t *testing.T, url string, l look) *tab {
	t.Helper()
	ctx, closeTab := chromedp.NewContext(browser.ctx)
	ctx, cancel := context.WithTimeout(ctx, 10*patience) // a thousand nodes take minutes on a busy machine
	b := &tab{t: t, ctx: ctx, url: url}
	chromedp.ListenTarget(ctx, b.event)
	t.Cleanup(func() {
		b.check()
		closeTab()
		cancel()
	})
	scheme, motion := "light", "no-preference"
	if l.dark {
		scheme = "dark"
	}
	if l.still {
		motion = "reduce"
	}
	b.run(
		network.Enable(), log.Enable(),
		chromedp.EmulateViewport(cmp.Or(l.width, 1600), cmp.Or(l.height, 1000)),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: motion},
		}),
		chromedp.Navigate(url+l.hash),
	)
	b.until("document.body.classList.contains('ready')")
	return b
}

func (b *tab) event(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *log.EventEntryAdded:
		b.messages = append(b.messages, fmt.Sprintf("%s: %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL))
	case *runtime.EventExceptionThrown:
		b.messages = append(b.messages, e.ExceptionDetails.Error())
	case *runtime.EventConsoleAPICalled:
		b.messages = append(b.messages, "console."+e.Type.String())
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, e.Request.URL)
	}
}

// check fails the test if something was written to the console or asked for elsewhere.
func (b *tab) check() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.messages {
		b.t.Errorf("on the console: %s", m)
	}
	for _, url := range b.requests {
		if !strings.HasPrefix(url, b.url) {
			b.t.Errorf("asked for %s, which is not of the page", url)
		}
	}
	if len(b.requests) == 0 {
		b.t.Error("no requests were seen; want those of the page")
	}
}

// forgive takes back what was written to the console so far, if each message has the
// given text.
func (b *tab) forgive(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var left []string
	for _, m := range b.messages {
		if !strings.Contains(m, text) {
			left = append(left, m)
		}
	}
	b.messages = left
}

func (b *tab) run(actions ...chromedp.Action) {
	b.t.Helper()
	if err := chromedp.Run(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

func awaiting(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }

// eval evaluates an expression of JavaScript.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	var out T
	if err := chromedp.Run(b.ctx, chromedp.Evaluate(expression, &out, awaiting)); err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return out
}

// until waits until an expression of JavaScript is true. That there is nothing yet which
// it is about, is not an error.
func (b *tab) until(condition string) {
	b.t.Helper()
	met := eval[bool](b, fmt.Sprintf(`new Promise(resolve => {
		const end = Date.now() + %d;
		const look = () => {
			let yes = false;
			try { yes = Boolean(%s); } catch {}
			if (yes || Date.now() > end) resolve(yes); else setTimeout(look, 20);
		};
		look();
	})`, patience.Milliseconds(), condition))
	if !met {
		b.shot("failed")
		b.t.Fatalf("not within %v: %s", patience, condition)
	}
}

// press presses keys: one character each, or names like "Tab" and "Shift+Tab".
func (b *tab) press(keys ...string) {
	b.t.Helper()
	for _, key := range keys {
		b.run(keyOf(key))
	}
}

// focus gives the focus to an element, in one go: the page may make it anew at any time.
func (b *tab) focus(selector string) {
	b.t.Helper()
	eval[bool](b, fmt.Sprintf("document.querySelector(%s).focus() === undefined", quote(selector)))
}

// click clicks the middle of an element. If that is no longer there by then, as figures above it
// take more room, it is looked for again.
func (b *tab) click(selector string) {
	b.t.Helper()
	b.until(fmt.Sprintf("document.querySelector(%s).checkVisibility()", quote(selector)))
	for range 10 {
		at := eval[[]float64](b, fmt.Sprintf(`(() => {
			const e = document.querySelector(%[1]s);
			e.scrollIntoView({ block: 'nearest' });
			const box = e.getBoundingClientRect();
			window.hit = false;
			document.addEventListener('click', c => { window.hit = Boolean(c.target.closest(%[1]s)); }, { capture: true, once: true });
			return [box.x + box.width / 2, box.y + box.height / 2];
		})()`, quote(selector)))
		b.run(chromedp.MouseClickXY(at[0], at[1]))
		if eval[bool](b, "window.hit") {
			return
		}
	}
	b.shot("failed")
	b.t.Fatalf("%s: no click gets there", selector)
}

// clickNode clicks the busiest box of the graph that can be seen: a large graph is drawn larger than its frame.
func (b *tab) clickNode() {
	b.t.Helper()
	middle := func() (x, y float64) {
		b.t.Helper()
		at := eval[[]float64](b, `(() => {
			for (const node of [...document.querySelectorAll('.node[data-key]:not(.end)')].sort((a, b) => b.drawn.node.in - a.drawn.node.in)) {
				const box = node.getBoundingClientRect(), x = box.x + box.width / 2, y = box.y + box.height / 2;
				if (node.contains(document.elementFromPoint(x, y))) return [x, y];
			}
			return [];
		})()`)
		testenv.MustEqual(b.t, len(at), 2, "the place of a box of the graph that can be clicked")
		return at[0], at[1]
	}
	x, y := middle()
	b.run(chromedp.MouseEvent(input.MouseMoved, x, y)) // nothing is arranged anew under somebody's hands
	x, y = middle()
	b.run(chromedp.MouseClickXY(x, y))
}

func (b *tab) text(selector string) string {
	b.t.Helper()
	return eval[string](b, fmt.Sprintf("document.querySelector(%s).textContent", quote(selector)))
}

// quote writes a string as JavaScript does.
func quote(text string) string {
	out, err := json.Marshal(text)
	if err != nil {
		panic("browsertest: a string: got " + err.Error() + ", want JSON")
	}
	return string(out)
}

// shot keeps a picture, if pictures are wanted.
func (b *tab) shot(name string) {
	b.t.Helper()
	if *shots == "" {
		return
	}
	var picture []byte
	b.run(chromedp.CaptureScreenshot(&picture))
	if err := os.MkdirAll(*shots, 0o755); err != nil {
		b.t.Fatal(err)
	}
	file := fmt.Sprintf("%s/%s-%s.png", *shots, strings.ReplaceAll(b.t.Name(), "/", "-"), name)
	if err := os.WriteFile(file, picture, 0o644); err != nil {
		b.t.Fatal(err)
	}
}
