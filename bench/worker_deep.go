package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"syscall"
	"time"

	"github.com/capriccio-go/capriccio/netpoll"
	"github.com/capriccio-go/capriccio/stackchunk"
	"github.com/capriccio-go/capriccio/task"
)

// deepServer is the server of deep-handler.
type deepServer struct {
	call func(func()) // the checkpoint before the deep part
	tls  *tls.Config  // nil: the deep part only needs stack
}

// runDeepServer serves until its standard input ends. SIGUSR1 makes it say what memory it
// has, SIGHUP does so after collecting. (At SIGUSR2 the runtime writes a dump into a file.)
func runDeepServer(args []string, out io.Writer) {
	flags := flag.NewFlagSet("deep", flag.ExitOnError)
	kind := flags.String("kind", "", "capriccio or goroutine")
	withTLS := flags.Bool("tls", false, "make a TLS handshake, decode JSON, execute a template")
	flags.Parse(args)
	s := &deepServer{}
	if *withTLS {
		s.tls = must(selfSigned())
	}
	reportMemory(out)
	switch *kind {
	case "capriccio":
		s.call = func(f func()) { stackchunk.Call(deepNeed, f) }
		serveInTask(must(oneLoop()), out, func(ln *netpoll.Listener) error {
			return acceptAll(ln, func(c net.Conn) { task.Go(func() { s.serve(c) }) })
		})
	case "goroutine":
		s.call = func(f func()) { f() }
		serveOnGoroutines(out, func(ln net.Listener) error {
			return acceptAll(ln, func(c net.Conn) { go s.serve(c) })
		})
	default:
		check(fmt.Errorf("-kind=%q, want capriccio or goroutine", *kind))
	}
}

// serve is the handler. What goes deep stands beyond the checkpoint, the waiting before it.
func (s *deepServer) serve(c net.Conn) {
	defer c.Close()
	var err error
	if s.tls != nil {
		t := tls.Server(c, s.tls)
		c = t
		s.call(func() { err = t.Handshake() })
	}
	for request := make([]byte, 1); err == nil; {
		if _, err = io.ReadFull(c, request); err == nil {
			s.call(func() { err = s.respond(c, request) })
		}
	}
}

func (s *deepServer) respond(c net.Conn, request []byte) error {
	response := request
	if s.tls == nil {
		request[0] = useStack(deepBytes)
	} else {
		response = must(renderPage())
	}
	_, err := c.Write(response)
	return err
}

// selfSigned is what a server of TLS needs.
func selfSigned() (*tls.Config, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	certificate := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	signed, err := x509.CreateCertificate(rand.Reader, certificate, certificate, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{signed}, PrivateKey: key}}, MinVersion: tls.VersionTLS13}, nil
}

// reportMemory answers the signals.
func reportMemory(out io.Writer) {
	onSignal(func(s os.Signal) {
		if s == syscall.SIGHUP {
			for range 3 { // a stack is halved by each
				runtime.GC()
			}
			debug.FreeOSMemory()
		}
		values := []metrics.Sample{{Name: "/memory/classes/heap/stacks:bytes"}, {Name: "/gc/cycles/total:gc-cycles"}}
		metrics.Read(values)
		fmt.Fprintf(out, "memory %d %d\n", values[0].Value.Uint64(), values[1].Value.Uint64())
	}, syscall.SIGUSR1, syscall.SIGHUP)
}

// runDeepClient opens connections, some at a time, makes one request on each, says
// "holding", and keeps them until its standard input ends.
func runDeepClient(args []string, out io.Writer) {
	flags := flag.NewFlagSet("deep-client", flag.ExitOnError)
	addr := flags.String("addr", "", "address of the server")
	withTLS := flags.Bool("tls", false, "by TLS")
	conns := flags.Int("conns", 1, "connections")
	flags.Parse(args)
	var config *tls.Config
	if *withTLS {
		// The handshake's cost on this side is not what is measured.
		config = &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13}
	}
	hold(out, *conns, func(i int) net.Conn { return deepExchange(*addr, i, config) })
}

// deepExchange makes connection number i and a request on it.
func deepExchange(addr string, i int, config *tls.Config) net.Conn {
	c := dialFor(addr, i)
	if config != nil {
		c = tls.Client(c, config)
	}
	must(c.Write([]byte{'?'}))
	var response [4096]byte
	must(c.Read(response[:]))
	return c
}

// deepTaskMetrics measure fresh tasks that go deep once.
func deepTaskMetrics(fresh func(j job, body func())) map[string]metricFunc {
	return map[string]metricFunc{
		"ns-per-task":                func(j job) { fresh(j, func() { useStack(deepBytes) }) },
		"ns-per-task" + renderSuffix: func(j job) { fresh(j, func() { must(renderPage()) }) },
	}
}

func freshTasks(j job, body func()) {
	onOneLoop(func(j job) {
		tasks.fresh(j, func() { stackchunk.Call(deepNeed, body) })
	})(j)
}

func (s *threads) fresh(j job, body func()) {
	all := s.waitGroup()
	run := func() { body(); all.Done() }
	j.emit(j.metric, "ns", j.untilTime(j.x, func() {
		all.Add(j.x)
		for range j.x {
			s.spawn(run)
		}
		all.Wait()
	}))
}
