package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestStorm drops very many connections of a knot process, after which it has its descriptors back and no more memory than
// before, and ends it while clients are busy: what was begun arrives whole.
func TestStorm(t *testing.T) {
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		t.Skip("no /proc here to count descriptors with:", err)
	}
	root := t.TempDir()
	testenv.Must(t, os.WriteFile(filepath.Join(root, "large"), make([]byte, 1<<20), 0o644))
	c := knotCommand(t, "-root", root, "-addr", "127.0.0.1:0", "-quiet", "-grace", "1m")
	c.Env = append(c.Env, capriccio.EnvOverload+"=wait") // every answer is looked at, and a slow machine is overloaded
	p := startProcess(t, c).serves(t)
	defer c.Process.Kill()
	addr := p.addr
	proc := fmt.Sprintf("/proc/%d/", c.Process.Pid)
	files := func() int { return len(testenv.Need(os.ReadDir(proc + "fd"))(t)) }
	resident := func() int {
		fields := strings.Fields(string(testenv.Need(os.ReadFile(proc + "statm"))(t)))
		return testenv.Need(strconv.Atoi(fields[1]))(t) * os.Getpagesize()
	}
	testenv.Check(t, askForEver(addr, func(n int) bool { return n < 3 }))
	before, total := files()+runtime.GOMAXPROCS(0), 2048 // a loop may open its ring yet
	if testenv.Full() {
		total = 10_000 // half of them keep their port for a minute
	}
	const slack, rounds = 48 << 20, 4 // of growth, with which only a leak goes on for so long
	memory := []int{resident()}
	for round := 1; round <= 2 || round <= rounds && memory[round-1] > memory[round-2]+slack; round++ {
		for i := range total { // half by RST, half by FIN, a third of each with half a request sent
			nc := testenv.Need(net.Dial("tcp", addr))(t).(*net.TCPConn)
			if i%3 == 0 {
				io.WriteString(nc, "GET /large HTTP/1.1\r\nHo")
			}
			if i%2 == 0 {
				nc.SetLinger(0)
			}
			nc.Close()
		}
		testenv.Until(t, "the descriptors come back", func() bool { return files() <= before })
		memory = append(memory, resident())
	}
	if last := len(memory) - 1; memory[last] > memory[last-1]+slack {
		t.Errorf("%d bytes resident at first and after each round", memory)
	}

	const clients = 12
	loaded, ended := make(chan bool, clients), make(chan error, clients)
	for range clients {
		go func() {
			ended <- askForEver(addr, func(n int) bool {
				if n == 20 {
					loaded <- true
				}
				return true
			})
		}()
	}
	for range clients {
		select {
		case <-loaded:
		case err := <-ended:
			t.Fatalf("a client ended before SIGTERM: %v", err)
		}
	}
	testenv.Must(t, c.Process.Signal(syscall.SIGTERM))
	for range clients {
		testenv.Check(t, <-ended)
	}
	log, _ := io.ReadAll(p.log)
	if err := c.Wait(); err != nil || strings.Contains(string(log), "level=ERROR") {
		t.Errorf("%v: clients that vanish are no failures of the server: %s", err, log)
	}
}

// askForEver asks for /large on one connection until the server ends it, or goesOn says no. An end within a response is an error.
func askForEver(addr string, goesOn func(n int) bool) error {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer nc.Close()
	r := bufio.NewReader(nc)
	for n := 1; ; n++ {
		_, writeErr := io.WriteString(nc, "GET /large HTTP/1.1\r\nHost: h\r\n\r\n")
		if _, err := r.Peek(1); err != nil {
			return nil // idle when the server closed it
		}
		if writeErr != nil {
			return fmt.Errorf("request %d not taken, and yet answered: %w", n, writeErr)
		}
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			return fmt.Errorf("response %d: %w", n, err)
		}
		got, err := io.Copy(io.Discard, resp.Body)
		if err != nil || got != 1<<20 || resp.StatusCode != 200 {
			return fmt.Errorf("response %d: status %d, %d bytes, %w", n, resp.StatusCode, got, err)
		}
		if resp.Close || !goesOn(n) {
			return nil
		}
	}
}
