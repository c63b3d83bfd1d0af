// Command gnet answers every request with a small fixed response, on gnet's
// event loop. It is no HTTP server: it looks for the blank line that ends a
// request and sends the same bytes for each. That is the least a server can do,
// so it bounds what an event loop in Go can reach.
package main

import (
	"bytes"
	"fmt"
	"net"
	"os"

	"github.com/capriccio-go/capriccio/bench/peers/ready"
	"github.com/panjf2000/gnet/v2"
)

// The same headers as the real servers send, with a date that stands still.
var (
	response = fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nServer: gnet\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\n"+
		"Content-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s", len(ready.Body), ready.Body)
	blankLine = []byte("\r\n\r\n")
)

type handler struct {
	gnet.BuiltinEventEngine
	addr net.Addr
	out  []byte // the responses to one read; there is one event loop
}

func (h *handler) OnBoot(gnet.Engine) gnet.Action {
	ready.Listening(h.addr)
	return gnet.None
}

func (h *handler) OnTraffic(c gnet.Conn) gnet.Action {
	in, err := c.Peek(-1)
	if err != nil {
		return gnet.Close
	}
	h.out = h.out[:0]
	taken := 0
	for {
		end := bytes.Index(in[taken:], blankLine)
		if end < 0 {
			break
		}
		taken += end + len(blankLine)
		h.out = append(h.out, response...)
	}
	if taken == 0 {
		return gnet.None
	}
	if _, err := c.Discard(taken); err != nil {
		return gnet.Close
	}
	if _, err := c.Write(h.out); err != nil {
		return gnet.Close
	}
	return gnet.None
}

// stderr is gnet's log: its own goes to standard output, which is the driver's.
type stderr struct{}

func (stderr) Debugf(string, ...any) {}
func (stderr) Infof(string, ...any)  {}
func (stderr) Warnf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}
func (stderr) Errorf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}
func (stderr) Fatalf(format string, args ...any) {
	ready.Fail(fmt.Errorf(format, args...))
}

func main() {
	// gnet takes an address, not a listener, and does not tell the port it got.
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		ready.Fail(err)
	}
	addr := ln.Addr()
	ln.Close()
	err = gnet.Run(&handler{addr: addr}, "tcp://"+addr.String(),
		gnet.WithNumEventLoop(1), gnet.WithLogger(stderr{}))
	ready.Fail(fmt.Errorf("gnet ended: %w", err))
}
