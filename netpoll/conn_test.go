//go:build linux

package netpoll

import (
	"io"
	"testing"

	"github.com/capriccio-go/capriccio/task"
)

func TestEcho(t *testing.T) {
	everywhere(t, func(t *testing.T, rt *task.Runtime) {
		for _, network := range []string{"tcp", "tcp6", "unix"} {
			t.Run(network+"/tasks", func(t *testing.T) {
				inTask(t, rt, func() { echo(t, network) })
			})
			t.Run(network+"/goroutines", func(t *testing.T) { echo(t, network) })
		}
	})
}

// echo sends a megabyte to and fro, reading while it writes.
func echo(t *testing.T, network string) {
	c, s := connPair(t, network)
	defer c.Close()
	defer s.Close()
	spawn := func(f func()) (join func() error) {
		if task.Current() != nil {
			return task.Go(f).Join
		}
		done := make(chan struct{})
		go func() { defer close(done); f() }()
		return func() error { <-done; return nil }
	}
	server := spawn(func() {
		buf := make([]byte, 10_000)
		for {
			n, err := s.Read(buf)
			if err == io.EOF {
				break
			}
			must(t, err)
			_, err = s.Write(buf[:n])
			must(t, err)
		}
		must(t, s.CloseWrite())
	})
	want := make([]byte, 1<<20)
	for i := range want {
		want[i] = byte(i * i >> 7)
	}
	writer := spawn(func() {
		_, err := c.Write(want)
		must(t, err)
		must(t, c.CloseWrite())
	})
	got, err := io.ReadAll(c)
	must(t, err)
	must(t, writer())
	must(t, server())
	if string(got) != string(want) {
		t.Errorf("got %d bytes back that differ from the %d sent", len(got), len(want))
	}
}
