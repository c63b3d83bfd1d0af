package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
)

// realVisitors is how many ask a real server at a time.
const realVisitors = 16

// visitedFile is what visitors of Caddy ask for.
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
		if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, addr); err != nil {
			return err
		}
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			return err
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", path, resp.Status)
		}
		count.Add(1)
	}
}

// visitNATS publishes a message on one connection and waits for it on another (the protocol of NATS clients).
func visitNATS(addr string, number int, count *atomic.Uint64) error {
	subject := fmt.Sprint("visits.", number)
	publisher, _, err := dialNATS(addr)
	if err != nil {
		return err
	}
	defer publisher.Close()
	subscriber, in, err := dialNATS(addr)
	if err != nil {
		return err
	}
	defer subscriber.Close()
	if _, err := fmt.Fprintf(subscriber, "SUB %s 1\r\nPING\r\n", subject); err != nil {
		return err
	}
	published := false
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return err
		}
		switch {
		case strings.HasPrefix(line, "-ERR"):
			return fmt.Errorf("nats-server says %s", strings.TrimSpace(line))
		case strings.HasPrefix(line, "PING"):
			if _, err := io.WriteString(subscriber, "PONG\r\n"); err != nil {
				return err
			}
			continue
		case strings.HasPrefix(line, "MSG"):
			if line, err = in.ReadString('\n'); err != nil || line != natsMessage+"\r\n" {
				return fmt.Errorf("message %q, %w", line, err)
			}
			count.Add(1)
		case !strings.HasPrefix(line, "PONG") || published: // the answer to our PING: it has subscribed
			continue
		}
		published = true
		if _, err := fmt.Fprintf(publisher, "PUB %s %d\r\n%s\r\n", subject, len(natsMessage), natsMessage); err != nil {
			return err
		}
	}
}

const natsMessage = "sixteen bytes !!"

func dialNATS(addr string) (net.Conn, *bufio.Reader, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, nil, err
	}
	in := bufio.NewReader(conn)
	if _, err = in.ReadString('\n'); err == nil { // INFO
		_, err = io.WriteString(conn, "CONNECT {\"verbose\":false,\"pedantic\":false}\r\n")
	}
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return conn, in, nil
}
