package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/internal/flow"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/netpoll"
	"github.com/capriccio-go/capriccio/task"
)

func TestServer(t *testing.T) {
	root := t.TempDir()
	big := bytes.Repeat([]byte("big"), 100_000)
	for name, data := range map[string]string{"index.html": "<p>hello", "big.txt": string(big)} {
		testenv.Must(t, os.WriteFile(filepath.Join(root, name), []byte(data), 0o666))
	}
	t.Run("goroutine", func(t *testing.T) {
		ln := testenv.Listen(t)
		go serveByGoroutine(ln, root)
		client(t, "http://"+ln.Addr().String(), string(big))
	})
	err := capriccio.Run(context.Background(), func(context.Context) error {
		t.Log("by task")
		ln, err := netpoll.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		task.Go(func() { serveByTask(ln, root) })
		task.Offload(func() { client(t, "http://"+ln.Addr().String(), string(big)) })
		return ln.Close()
	}, capriccio.WithLoops(2), capriccio.WithoutSignals())
	testenv.Check(t, err)
	err = capriccio.Run(context.Background(), func(context.Context) error {
		t.Log("by flow")
		ln, err := netpoll.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		g, in := build(ln, &serve{root: root}, flow.Options{})
		if err := g.Start(); err != nil {
			return err
		}
		task.Go(func() { in.Serve() })
		task.Offload(func() { client(t, "http://"+ln.Addr().String(), string(big)) })
		return g.Shutdown(context.Background())
	}, capriccio.WithLoops(2), capriccio.WithoutSignals())
	testenv.Check(t, err)
}

func client(t *testing.T, url, big string) {
	c := &http.Client{Timeout: time.Minute}
	for _, want := range []struct {
		method, path, body, kind string
		status                   int
	}{
		{"GET", "/", "<p>hello", "text/html; charset=utf-8", 200},
		{"GET", "/big.txt", big, "text/plain; charset=utf-8", 200},
		{"HEAD", "/big.txt", "", "text/plain; charset=utf-8", 200},
		{"GET", "/../../etc/passwd", "", "", 404},
		{"GET", "/none", "", "", 404},
		{"POST", "/", "", "", 405},
		{"GET", "/index.html", "<p>hello", "text/html; charset=utf-8", 200},
	} {
		req := testenv.Need(http.NewRequest(want.method, url+want.path, nil))(t)
		resp, err := c.Do(req)
		if err != nil {
			t.Errorf("%s %s: %v", want.method, want.path, err)
			continue
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != want.status || string(body) != want.body || resp.Header.Get("Content-Type") != want.kind {
			t.Errorf("%s %s: %d, %q, %.20q, %v; want %d, %q, %.20q", want.method, want.path,
				resp.StatusCode, resp.Header.Get("Content-Type"), body, err, want.status, want.kind, want.body)
		}
	}
	for request, status := range map[string]string{
		"nonsense\r\n\r\n": "400",
		"GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n":                             "400",
		"GET / HTTP/1.1\r\n" + strings.Repeat("X: y\r\n", 4000):                                       "431",
		"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET /none HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n": "200",
	} {
		conn := testenv.Dial(t, strings.TrimPrefix(url, "http://"))
		go io.WriteString(conn, request) // the server may not read all of it
		line, err := bufio.NewReader(conn).ReadString('\n')
		if !strings.Contains(line, " "+status+" ") {
			t.Errorf("%.20q: %q, %v; want %s", request, line, err, status)
		}
		conn.Close()
	}
	conn := testenv.Dial(t, strings.TrimPrefix(url, "http://"))
	defer conn.Close()
	io.WriteString(conn, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || resp.Header.Get("Connection") != "keep-alive" {
		t.Errorf("a client of HTTP/1.0 is not told that the connection stays: %v, %v", resp, err)
	}
}
