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
var visits = map[string]func(addr string, number int, count *atomic.Uint64) error{"caddy": visitCaddy, "nats-server": visitNATS}

// runVisits keeps a real server busy until the standard input ends. For each line there it prints how
// often visitors have been answered.
func runVisits(args []string, out io.Writer) error {
	if len(args) != 2 || visits[args[0]] == nil {
		return fmt.Errorf("%s visits: want caddy or nats-server, and an address", workerCommand)
	}
	var count atomic.Uint64
	failed := make(chan error, realVisitors+1)
	for i := range realVisitors {
		go func() { failed <- visits[args[0]](args[1], i, &count) }()
	}
	go func() {
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() {
			fmt.Fprintln(out, count.Load())
		}
		failed <- nil
	}()
	return <-failed
}

// visitCaddy gets a file, and every other time through the proxy.
func visitCaddy(addr string, number int, count *atomic.Uint64) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	for i := number; ; i++ {
		path := "/" + visitedFile
		if i%2 == 0 {
			path = "/proxy" + path
		}
		if _, err := ask(conn, in, fmt.Sprintf("GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, addr)); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		count.Add(1)
	}
}

// visitNATS publishes a message on one connection and waits for it on another.
func visitNATS(addr string, number int, count *atomic.Uint64) error {
	publisher, err := dialNATS(addr)
	if err != nil {
		return err
	}
	defer publisher.Close()
	subscriber, err := dialNATS(addr)
	if err != nil {
		return err
	}
	defer subscriber.Close()
	subject := fmt.Sprint("visits.", number)
	if _, err := fmt.Fprintf(subscriber, "SUB %s 1\r\nPING\r\n", subject); err != nil {
		return err
	}
	if err := subscriber.until("PONG"); err != nil { // it has subscribed
		return err
	}
	for ; ; count.Add(1) {
		if _, err := fmt.Fprintf(publisher, "PUB %s %d\r\n%s\r\n", subject, len(natsMessage), natsMessage); err != nil {
			return err
		}
		if err := subscriber.until(natsMessage); err != nil {
			return err
		}
	}
}

const natsMessage = "sixteen bytes !!"

type natsConn struct {
	net.Conn
	in *bufio.Reader
}

func dialNATS(addr string) (*natsConn, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	c := &natsConn{conn, bufio.NewReader(conn)}
	if err := c.until("INFO"); err != nil {
		conn.Close()
		return nil, err
	}
	_, err = io.WriteString(c, "CONNECT {\"verbose\":false,\"pedantic\":false}\r\n")
	return c, err
}

// until reads up to a line with a prefix, and answers what the server asks meanwhile.
func (c *natsConn) until(prefix string) error {
	for {
		line, err := c.in.ReadString('\n')
		switch {
		case err != nil || strings.HasPrefix(line, prefix):
			return err
		case strings.HasPrefix(line, "-ERR"):
			return fmt.Errorf("nats-server says %s", strings.TrimSpace(line))
		case strings.HasPrefix(line, "PING"):
			if _, err := io.WriteString(c, "PONG\r\n"); err != nil {
				return err
			}
		}
	}
}
