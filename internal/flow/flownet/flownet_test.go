package flownet_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/aio"
	"github.com/capriccio-go/capriccio/internal/flow"
	"github.com/capriccio-go/capriccio/internal/flow/flownet"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/netpoll"
	"github.com/capriccio-go/capriccio/ressched"
	"github.com/capriccio-go/capriccio/task"
)

// The graph of Figure 4 of the paper: nI ||| pR ||| sR ||| nO, pR.alt ||| nI, nO.feed ||| pR.
// A request is a line, the name of a file; "quit" ends the connection.

// parseRequest tells the lines of a connection apart.
type parseRequest struct {
	Out   flow.Out[string]
	Alt   flow.Out[flownet.More]
	State flow.Vars[parsing]
}

type parsing struct {
	rest []byte
	busy bool // a response is on its way
}

// An event is what a parser hears of: something has been read, or a response has been sent.
type event struct {
	data flownet.Data
	sent bool
}

func (p *parseRequest) Run(c *flow.Call[event]) {
	for e, ok := c.Next(); ok; e, ok = c.Next() {
		s := p.State.Of(c.Flow())
		s.rest = append(s.rest, e.data.Bytes...)
		if e.sent {
			s.busy = false
		}
		if e.data.Err != nil || s.busy {
			continue
		}
		line, rest, ok := bytes.Cut(s.rest, []byte("\n"))
		switch {
		case !ok:
			p.Alt.Send(c.Flow(), flownet.More{})
		case string(line) == "quit": // nothing more is sent: the connection ends
		default:
			s.rest, s.busy = rest, true
			p.Out.Send(c.Flow(), string(line))
		}
	}
}

type serveRequest struct {
	Out    flow.Out[flownet.Chunk]
	folder string
}

func (m *serveRequest) Run(c *flow.Call[string]) {
	name, _ := c.Next()
	f, err := aio.Open(filepath.Join(m.folder, filepath.Base(name)))
	if err != nil {
		m.Out.Send(c.Flow(), flownet.Chunk{Bytes: []byte("none\n")})
		return
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return
	}
	head := fmt.Appendf(nil, "%d\n", info.Size())
	if m.Out.Send(c.Flow(), flownet.Chunk{Bytes: head, File: f, Len: info.Size(), Done: func() { f.Close() }}) != nil {
		f.Close()
	}
}

// serving runs the graph and calls client, on a plain goroutine, with its address.
func serving(t *testing.T, folder string, o flownet.InputOptions, client func(addr string)) {
	t.Helper()
	err := capriccio.Run(context.Background(), func(context.Context) error {
		ln, err := netpoll.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		g := flow.New("figure-4")
		parse, serve := &parseRequest{}, &serveRequest{folder: folder}
		in, more := flownet.AddInput(g, "nI", ln, o)
		out, write := flownet.AddOutput(g, "nO", flownet.OutputOptions{})
		pR := flow.Add(g, "pR", flow.ByFlow, parse)
		flow.ConnectAs(&in.Out, pR, func(d flownet.Data) event { return event{data: d} })
		flow.Connect(&parse.Out, flow.Add(g, "sR", flow.ByFlow, serve))
		flow.Connect(&serve.Out, write)
		flow.Back(&parse.Alt, more)
		flow.BackAs(&out.Feed, pR, func(s flownet.Sent) event {
			return event{sent: true, data: flownet.Data{Err: s.Err}}
		})
		if err := g.Start(); err != nil {
			return err
		}
		served := task.Go(func() {
			if err := in.Serve(); !flownet.Ended(err) {
				t.Errorf("Serve: %v", err)
			}
		})
		task.Offload(func() { client(ln.Addr().String()) })
		if err := g.Shutdown(context.Background()); err != nil {
			return err
		}
		for _, s := range g.Stats() {
			if s.Queued != 0 || s.Busy != 0 {
				t.Errorf("left after the shutdown: %+v", s)
			}
		}
		err = served.Join()
		for ressched.Descriptors.InUse() > 0 { // until the loops have closed all; the test's time limit ends this
			task.Yield()
		}
		return err
	}, capriccio.WithLoops(2), capriccio.WithoutSignals())
	testenv.Check(t, err)
}

func TestTheGraphOfThePaper(t *testing.T) {
	folder := t.TempDir()
	large := bytes.Repeat([]byte("0123456789abcdef"), 40_000)
	for name, data := range map[string][]byte{"small": []byte("tiny"), "large": large} {
		testenv.Must(t, os.WriteFile(filepath.Join(folder, name), data, 0o666))
	}
	serving(t, folder, flownet.InputOptions{}, func(addr string) {
		done := make(chan bool)
		for range 20 {
			go func() {
				defer func() { done <- true }()
				c := testenv.Dial(t, addr)
				defer c.Close()
				io.WriteString(c, "small\nlarge\nmissing\nsm") // pipelined, and cut in the middle
				r := bufio.NewReader(c)
				expect := func(want string) {
					got := make([]byte, len(want))
					if _, err := io.ReadFull(r, got); err != nil || string(got) != want {
						t.Errorf("got %.40q, %v; want %.40q", got, err, want)
					}
				}
				expect("4\ntiny" + fmt.Sprintf("%d\n", len(large)) + string(large) + "none\n")
				io.WriteString(c, "all\nquit\n")
				expect("4\ntiny")
				if n, err := r.Read(make([]byte, 1)); n != 0 || err != io.EOF {
					t.Errorf("after quit: %d bytes, %v; want the end", n, err)
				}
			}()
		}
		for range 20 {
			<-done
		}
	})
}

func TestAConnectionThatSendsNothingEnds(t *testing.T) {
	serving(t, t.TempDir(), flownet.InputOptions{Idle: time.Millisecond}, func(addr string) {
		c := testenv.Dial(t, addr)
		defer c.Close()
		if _, err := c.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("Read: %v; want the end", err)
		}
	})
}

func TestShutdownEndsIdleConnections(t *testing.T) {
	var c net.Conn
	serving(t, t.TempDir(), flownet.InputOptions{Idle: -1}, func(addr string) {
		c = testenv.Dial(t, addr)
		io.WriteString(c, "missing\n")
		if got, err := bufio.NewReader(c).ReadString('\n'); got != "none\n" {
			t.Errorf("%q, %v", got, err)
		}
	})
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Read after the shutdown: %v; want the end", err)
	}
	c.Close()
}

// A large file may take longer than Stall, as long as it goes on.
func TestTheTimeForAFileBeginsAnewAsItGoesOn(t *testing.T) {
	var times atomic.Int32
	defer flownet.SetNow(func() time.Time { times.Add(1); return time.Now() })()
	folder := t.TempDir()
	const size = 4 << 20
	testenv.Must(t, os.WriteFile(filepath.Join(folder, "large"), make([]byte, size), 0o666))
	serving(t, folder, flownet.InputOptions{}, func(addr string) {
		c := testenv.Dial(t, addr)
		defer c.Close()
		io.WriteString(c, "large\nquit\n")
		testenv.Got(io.Copy(io.Discard, c))(t, int64(len("4194304\n")+size), "read")
	})
	testenv.AtLeast(t, times.Load(), size>>20, "deadlines")
}

func TestAClientThatGoesEndsItsFlow(t *testing.T) {
	folder := t.TempDir()
	testenv.Must(t, os.WriteFile(filepath.Join(folder, "huge"), []byte(strings.Repeat("x", 8<<20)), 0o666))
	serving(t, folder, flownet.InputOptions{}, func(addr string) {
		for range 5 {
			c := testenv.Dial(t, addr)
			io.WriteString(c, "huge\n")
			io.ReadFull(c, make([]byte, 1000))
			c.Close()
		}
	}) // descriptors are counted at the end
}

// twoChunks answers with a large chunk and a small one.
type twoChunks struct {
	Out  flow.Out[flownet.Chunk]
	done func() // of the large one
}

func (m *twoChunks) Run(c *flow.Call[flownet.Data]) {
	if d, _ := c.Next(); d.Err == nil {
		m.Out.Send(c.Flow(), flownet.Chunk{Bytes: make([]byte, 16<<20), Done: m.done})
		m.Out.Send(c.Flow(), flownet.Chunk{Bytes: []byte("second")})
	}
}

// A client that was too slow for a part of a chunk gets the end, and no chunk after that part.
func TestNothingFollowsAChunkThatFailed(t *testing.T) {
	failed, goOn := make(chan bool), make(chan bool)
	testenv.Check(t, capriccio.Run(context.Background(), func(context.Context) error {
		ln := testenv.Need(netpoll.Listen("tcp", "127.0.0.1:0"))(t)
		g := flow.New("two")
		m := &twoChunks{done: func() { failed <- true; <-goOn }}
		in, _ := flownet.AddInput(g, "in", ln, flownet.InputOptions{})
		out, write := flownet.AddOutput(g, "out", flownet.OutputOptions{Stall: 50 * time.Millisecond})
		flow.Connect(&in.Out, flow.Add(g, "two", flow.ByFlow, m))
		flow.Connect(&m.Out, write)
		flow.Discard(&out.Feed)
		testenv.Must(t, g.Start())
		served := task.Go(func() { in.Serve() })
		task.Offload(func() {
			c := testenv.Dial(t, ln.Addr().String())
			defer c.Close()
			io.WriteString(c, "go")
			<-failed
			testenv.Need(io.ReadFull(c, make([]byte, 64<<10)))(t)
			goOn <- true
			all := testenv.Need(io.ReadAll(c))(t)
			testenv.True(t, !bytes.HasSuffix(all, []byte("second")), "the second chunk came after %d bytes of the first", len(all))
		})
		testenv.Check(t, g.Shutdown(context.Background()))
		return served.Join()
	}, capriccio.WithLoops(2), capriccio.WithoutSignals()))
}
