package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
)

const realVisitors = 16

const visitedFile = "hello.txt"

// visits are how one visitor asks a server for ever, and counts the answers.
var visits = map[string]func(addr string, number int, count *atomic.Uint64){"caddy": visitCaddy, "nats-server": visitNATS}

// runVisits keeps a real server busy until the standard input ends. For each line there it prints how
// often visitors have been answered.
func runVisits(args []string, out io.Writer) {
	if len(args) != 2 || visits[args[0]] == nil {
		check(fmt.Errorf("%s visits: want caddy or nats-server, and an address", workerCommand))
	}
	var count atomic.Uint64
	for i := range realVisitors {
		go visits[args[0]](args[1], i, &count)
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		fmt.Fprintln(out, count.Load())
	}
}

// visitCaddy gets a file, and every other time through the proxy.
func visitCaddy(addr string, number int, count *atomic.Uint64) {
	conn := must(net.Dial("tcp", addr))
	in := bufio.NewReader(conn)
	for i := number; ; i++ {
		path := "/" + visitedFile
		if i%2 == 0 {
			path = "/proxy" + path
		}
		must(ask(conn, in, fmt.Sprintf("GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, addr)))
		count.Add(1)
	}
}

// visitNATS publishes a message on one connection and waits for it on another.
func visitNATS(addr string, number int, count *atomic.Uint64) {
	publisher, subscriber := dialNATS(addr), dialNATS(addr)
	subject := fmt.Sprint("visits.", number)
	must(fmt.Fprintf(subscriber, "SUB %s 1\r\nPING\r\n", subject))
	subscriber.until("PONG") // it has subscribed
	for ; ; count.Add(1) {
		must(fmt.Fprintf(publisher, "PUB %s %d\r\n%s\r\n", subject, len(natsMessage), natsMessage))
		subscriber.until(natsMessage)
	}
}

const natsMessage = "sixteen bytes !!"

type natsConn struct {
	net.Conn
	in *bufio.Reader
}

func dialNATS(addr string) *natsConn {
	conn := must(net.Dial("tcp", addr))
	c := &natsConn{conn, bufio.NewReader(conn)}
	c.until("INFO")
	must(io.WriteString(c, "CONNECT {\"verbose\":false,\"pedantic\":false}\r\n"))
	return c
}

// until reads up to a line with a prefix, and answers what the server asks meanwhile.
func (c *natsConn) until(prefix string) {
	for {
		line := must(c.in.ReadString('\n'))
		switch {
		case strings.HasPrefix(line, prefix):
			return
		case strings.HasPrefix(line, "-ERR"):
			check(fmt.Errorf("nats-server says %s", strings.TrimSpace(line)))
		case strings.HasPrefix(line, "PING"):
			must(io.WriteString(c, "PONG\r\n"))
		}
	}
}
