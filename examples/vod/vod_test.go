package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// With an address in the environment the test is the server.
func TestMain(m *testing.M) {
	if args := os.Getenv("VOD_TEST_SERVER"); args != "" {
		os.Args = append(os.Args[:1], strings.Split(args, " ")...)
		main()
		os.Exit(0) // not the tests again, which would start servers
	}
	os.Exit(m.Run())
}

func TestWhenWhatIsDue(t *testing.T) {
	m := &movie{size: 4 * pieceSize, rate: 1000, first: 10 * time.Second, chunk: 2 * time.Second}
	for sent, want := range map[int64]time.Duration{
		0: 0, 9999: 0, 10000: 2 * time.Second, 11999: 2 * time.Second, 12000: 4 * time.Second, 110000: 102 * time.Second,
	} {
		testenv.Equal(t, m.due(sent), want, "due(%d)", sent)
	}
	testenv.Equal(t, m.at(pieceSize+5, 6*pieceSize), 3*pieceSize, "at is N: whole pieces, round and round")
	testenv.Equal(t, m.at(math.MaxInt64, 2*pieceSize), pieceSize, "at is N: far behind the end too")
}

func TestEachServerSendsTheFilmInTime(t *testing.T) {
	film := make([]byte, 3*pieceSize)
	for i := range film {
		film[i] = byte(i >> 8)
	}
	name := filepath.Join(t.TempDir(), "film")
	testenv.Must(t, os.WriteFile(name, film, 0o666))
	for _, by := range []string{"flow", "task", "goroutine"} {
		// Four pieces at once, the next an hour later.
		server := exec.Command(os.Args[0])
		server.Env = append(os.Environ(), fmt.Sprintf("VOD_TEST_SERVER=-by %s -film %s -addr 127.0.0.1:0 -rate %v -first 3500ms -chunk 1h", by, name, pieceSize*8/1e6))
		server.Stderr = os.Stderr
		out := testenv.Need(server.StdoutPipe())(t)
		testenv.Must(t, server.Start())
		var addr string
		if _, err := fmt.Fscanf(out, "listening %s\n", &addr); err != nil {
			t.Fatal(by, err)
		}
		watch(t, by, addr, film)
		if resp, err := http.Get("http://" + addr + "/?from=-1"); err != nil || resp.StatusCode != 400 {
			t.Errorf("%s: from=-1: %v, %v; want 400", by, resp, err)
		}
		server.Process.Signal(syscall.SIGTERM) // a shell may have set SIGINT to be ignored
		server.Wait()
	}
}

func watch(t *testing.T, by, addr string, film []byte) {
	c := testenv.Dial(t, addr)
	defer c.Close()
	io.WriteString(c, fmt.Sprintf("GET /?from=%d HTTP/1.1\r\nHost: x\r\n\r\n", pieceSize))
	got := make([]byte, len(responseHead)+4*pieceSize)
	testenv.Must(t, testenv.Err(io.ReadFull(c, got)), by)
	want := append([]byte(responseHead), film[pieceSize:]...)
	want = append(append(want, film...), film...)[:len(got)]
	if !bytes.Equal(got, want) {
		t.Errorf("%s: the film is not the one in the file", by)
	}
	// The next piece is due in an hour. That none comes before can't be waited for; that
	// none is there now can be seen.
	c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	if n, err := c.Read(got); n != 0 || !os.IsTimeout(err) {
		t.Errorf("%s: %d bytes more, %v", by, n, err)
	}
}
