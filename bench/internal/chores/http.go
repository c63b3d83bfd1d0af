package chores

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Flags are what every server of the experiment is told.
type Flags struct {
	*flag.FlagSet
	Steps       int
	Root        string
	Addr        string
	Prioritized bool
	Limit       int64
	Counted     bool
}

// NewFlags makes the flags; parse them before use.
func NewFlags(name string) *Flags {
	f := &Flags{FlagSet: flag.NewFlagSet(name, flag.ContinueOnError)}
	f.IntVar(&f.Steps, "steps", 0, "steps of work that take 1 ms")
	f.StringVar(&f.Root, "root", "", "folder that holds the folder files")
	f.StringVar(&f.Addr, "addr", "127.0.0.1:0", "address to listen on, with SO_REUSEPORT")
	f.BoolVar(&f.Prioritized, "prioritized", false, "look at the Priority header")
	f.Int64Var(&f.Limit, "limit", 0, "requests inside at a time; others are refused; 0: all")
	f.BoolVar(&f.Counted, "counted", false, "count accepts that fail, for the order \"counts\", and log nothing; no limit of connections")
	return f
}

// Obey carries out the orders that come by standard input until it ends.
func (h *Host) Obey() error {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if err := h.Order(lines.Text()); err != nil {
			return err
		}
	}
	return nil
}

// workers are those of a backend for goroutines.
type workers chan struct{}

func (w workers) Acquire() { w <- struct{}{} }
func (w workers) Release() { <-w }

// NewHost is the host of goroutines.
func NewHost(f *Flags) *Host {
	mu := new(sync.Mutex)
	return &Host{
		Steps: f.Steps, Sleep: time.Sleep, Locks: [2]sync.Locker{new(sync.Mutex), new(sync.Mutex)},
		Workers: make(workers, BackendWorkers), Mu: mu, Changed: sync.NewCond(mu),
		Limit: f.Limit, Yield: runtime.Gosched,
	}
}

// Handler does the chores of h, and serves the files below root if there is one.
func Handler(h *Host, root string) http.Handler {
	chores := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := exchange{w, r}
		if err := h.Serve(x); errors.Is(err, ErrNoChore) {
			http.NotFound(w, r)
		} else if err != nil && r.Context().Err() == nil {
			panic(http.ErrAbortHandler) // the client sees that there is no more
		}
	})
	mux := http.NewServeMux()
	mux.Handle("/", chores)
	mux.HandleFunc(UpgradePath, Upgrade)
	if root != "" {
		mux.Handle(FilesPath, http.FileServer(http.Dir(root)))
	}
	return mux
}

// Upgrade is a handler that takes its connection over, as WebSocket libraries do, and
// returns each byte.
func Upgrade(w http.ResponseWriter, _ *http.Request) {
	nc, both, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer nc.Close()
	io.WriteString(nc, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	var b [1]byte
	for {
		if _, err := both.Read(b[:]); err != nil {
			return
		}
		if _, err := nc.Write(b[:]); err != nil {
			return
		}
	}
}

type exchange struct {
	w http.ResponseWriter
	r *http.Request
}

func (x exchange) Path() string    { return strings.TrimPrefix(x.r.URL.Path, AdaptPrefix) }
func (x exchange) Query() string   { return x.r.URL.RawQuery }
func (x exchange) Body() io.Reader { return x.r.Body }
func (x exchange) Flush() error    { return http.NewResponseController(x.w).Flush() }

func (x exchange) Text(status int, text string) error {
	x.w.Header().Set("Content-Type", "text/plain")
	x.w.WriteHeader(status)
	_, err := io.WriteString(x.w, text)
	return err
}

func (x exchange) Stream(contentType string, n int64) io.Writer {
	x.w.Header().Set("Content-Type", contentType)
	if n >= 0 {
		x.w.Header().Set("Content-Length", fmt.Sprint(n))
	}
	return x.w
}

// Limits is what a server of net/http puts before its handler, and round its listener.
// Either may be nil.
type Limits struct {
	Handler  func(next http.Handler, prioritized bool) http.Handler
	Listener func(net.Listener) net.Listener
}

// reusePort is SO_REUSEPORT of socket(7), which package syscall does not name.
const reusePort = 15

// Listen listens with SO_REUSEPORT.
func Listen(addr string) (net.Listener, error) {
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		outer := c.Control(func(fd uintptr) {
			err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, reusePort, 1)
		})
		return errors.Join(outer, err)
	}}
	return config.Listen(context.Background(), "tcp", addr)
}

// RunHTTP is a server of net/http with some limits: it says "listening ADDRESS", carries out
// orders, ends with its standard input, and stops gracefully on SIGTERM.
func RunHTTP(args []string, out io.Writer, limits Limits) error {
	f := NewFlags("serve")
	if err := f.Parse(args); err != nil {
		return err
	}
	host := NewHost(f)
	host.Out = out
	server := &http.Server{Handler: Handler(host, f.Root)}
	if f.Counted {
		server.ErrorLog = log.New(failLines{host}, "", 0)
	}
	if limits.Handler != nil {
		server.Handler = limits.Handler(server.Handler, f.Prioritized)
	}
	ln, err := Listen(f.Addr)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "listening", ln.Addr())
	if limits.Listener != nil {
		ln = limits.Listener(ln)
	}
	var stopping atomic.Bool
	failed := make(chan error, 3)
	go func() {
		if err := server.Serve(ln); !stopping.Load() {
			failed <- err
		}
	}()
	go func() { failed <- host.Obey() }()
	OnTerm(func(ctx context.Context) {
		stopping.Store(true)
		failed <- server.Shutdown(ctx)
	})
	return <-failed
}

// failLines counts what net/http logs of accepts that failed.
type failLines struct{ host *Host }

func (f failLines) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "Accept error") {
		f.host.AcceptFails.Add(1)
	}
	return len(p), nil
}

// OnTerm calls stop on SIGTERM, with a context that gives it 10 s.
func OnTerm(stop func(ctx context.Context)) {
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM)
	go func() {
		<-told
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		stop(ctx)
	}()
}
