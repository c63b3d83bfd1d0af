package tickets

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A server is one of several that share a folder.
type server struct {
	*Keys
	config *tls.Config
	addr   string
	log    testenv.Buffer
	time   time.Time
}

func newServer(t *testing.T, folder string) *server {
	s := &server{time: time.Unix(1_800_000_000, 0)}
	s.Keys = testenv.Need(New(folder, slog.New(slog.NewTextHandler(&s.log, nil))))(t)
	t.Cleanup(s.Close)
	s.now = func() time.Time { return s.time }
	s.config = testenv.NewCA(t).Server(t)
	ln := testenv.Need(tls.Listen("tcp", "127.0.0.1:0", s.config))(t)
	t.Cleanup(func() { ln.Close() })
	s.addr = ln.Addr().String()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				io.WriteString(c, "x") // behind the ticket
				io.Copy(io.Discard, c)
			}()
		}
	}()
	return s
}

func (s *server) refreshed(at time.Duration) {
	s.time = time.Unix(1_800_000_000, 0).Add(at)
	s.refresh(context.Background(), s.config)
}

// resumes connects, and reports whether the session of before goes on.
func resumes(t *testing.T, s *server, cache tls.ClientSessionCache) bool {
	t.Helper()
	raw := testenv.Need(net.Dial("tcp", s.addr))(t)
	c := tls.Client(raw, &tls.Config{ServerName: "knot.test", InsecureSkipVerify: true, ClientSessionCache: cache})
	defer c.Close()
	testenv.Must(t, testenv.Err(io.ReadFull(c, make([]byte, 1))))
	return c.ConnectionState().DidResume
}

// TestSharedKeys: a session goes on at another server, over rotations too, and no key is used before the others can have it.
func TestSharedKeys(t *testing.T) {
	folder := t.TempDir()
	a, b := newServer(t, folder), newServer(t, folder)
	a.refreshed(0)
	b.refreshed(0)
	cache := tls.NewLRUClientSessionCache(0)
	testenv.Equal(t, resumes(t, a, cache), false, "the first session")
	testenv.Equal(t, resumes(t, b, cache), true, "the session at the other server")
	testenv.Equal(t, len(a.all), 1, "keys")

	a.refreshed(Period - ahead) // makes the next key
	testenv.Equal(t, len(a.all), 2, "keys")
	testenv.Equal(t, resumes(t, a, cache), true, "the session while the next key is not in use")
	testenv.Equal(t, resumes(t, b, cache), true, "the session at a server that does not know the next key")
	b.refreshed(Period - ahead + every)
	testenv.Equal(t, b.all[1], a.all[1], "the next key of the other server")
	a.refreshed(Period)
	testenv.Equal(t, resumes(t, a, cache), true, "the session with a new key")
	testenv.Equal(t, resumes(t, b, cache), true, "that at a server whose clock is behind")
	first := a.all[0]
	for i := range keep + 2 {
		a.refreshed(time.Duration(i+2) * Period)
	}
	testenv.Equal(t, len(a.all), keep+2, "keys")
	for _, k := range a.all {
		testenv.True(t, k != first, "an old key is there")
	}
	a.refreshed(100 * Period) // none was there meanwhile
	testenv.Equal(t, a.all[len(a.all)-1].From, a.time, "the beginning of the newest key")
	mode := testenv.Need(os.Stat(filepath.Join(folder, name)))(t).Mode().Perm()
	testenv.Equal(t, mode&0o077, 0, "rights of others to the file")
}

// TestClockFarAhead: the keys of a server whose clock is a year ahead hold up no rotation and are gone after the next one, and that server
// takes no key away that the others encrypt with.
func TestClockFarAhead(t *testing.T) {
	const year = 365 * 24 * time.Hour
	folder := t.TempDir()
	wrong, a, b := newServer(t, folder), newServer(t, folder), newServer(t, folder)
	lines := func(s *server) int { return strings.Count(s.log.String(), "far in the future") }
	a.refreshed(0)
	wrong.refreshed(year)
	for _, s := range []*server{a, b} {
		s.refreshed(every)
		s.refreshed(2 * every)
		testenv.Equal(t, lines(s), 1, "lines in %s", s.log.String())
	}
	cache := tls.NewLRUClientSessionCache(0)
	resumes(t, wrong, cache)
	testenv.Equal(t, resumes(t, a, cache), true, "the session of the server whose clock is ahead")
	cache = tls.NewLRUClientSessionCache(0)
	resumes(t, a, cache)
	testenv.Equal(t, resumes(t, b, cache), true, "the session at the other server")
	encrypts := inOrder(a.all, a.time)[0]
	for i := range 4 {
		wrong.refreshed(year + time.Duration(i)*Period)
		for _, s := range []*server{a, b} {
			s.refreshed(time.Duration(i+1)*Period - ahead)
			s.refreshed(time.Duration(i+1) * Period)
		}
		now := inOrder(a.all, a.time)[0]
		testenv.True(t, now != encrypts, "no rotation in period %d", i+1)
		testenv.Equal(t, inOrder(b.all, b.time)[0], now, "the key of the other server")
		encrypts = now
		testenv.Equal(t, resumes(t, b, cache), true, "the session at the other server in period %d", i+1)
		testenv.Equal(t, resumes(t, a, cache), true, "the session in period %d", i+1)
	}
	a.refreshed(5*Period - ahead)
	a.refreshed(5*Period - ahead + every) // the clock that was ahead has been set right
	testenv.Equal(t, a.odd, false, "a key of the future is left")

	behind := newServer(t, folder)
	behind.refreshed(-year)
	a.refreshed(5 * Period)
	testenv.Equal(t, inOrder(a.all, a.time)[1], encrypts, "the key of the last period after a server whose clock is behind")
	testenv.Equal(t, lines(behind), 1, "lines in %s", behind.log.String())
}

// TestFolderThatFails: the server goes on with keys of its own, rotates them, and says so once.
func TestFolderThatFails(t *testing.T) {
	folder := t.TempDir()
	a, b := newServer(t, folder), newServer(t, folder)
	a.refreshed(0)
	b.refreshed(0)
	file := filepath.Join(folder, name)
	was := testenv.Need(os.ReadFile(file))(t)
	testenv.Must(t, os.WriteFile(file, []byte("{"), 0o600))
	cache := tls.NewLRUClientSessionCache(0)
	resumes(t, a, cache)
	for i := range 3 {
		a.refreshed(time.Duration(i) * Period)
	}
	testenv.Equal(t, resumes(t, a, cache), true, "a session with keys of the server's own")
	testenv.Equal(t, strings.Count(a.log.String(), "can't be shared"), 1, "lines in %s", a.log.String())
	testenv.Must(t, os.WriteFile(file, was, 0o600))
	a.refreshed(every)
	b.refreshed(every)
	resumes(t, a, cache)
	testenv.Equal(t, resumes(t, b, cache), true, "the session at the other server")
	testenv.Contains(t, a.log.String(), "are shared again")

	fresh := newServer(t, filepath.Join(file, "no folder"))
	fresh.refreshed(0)
	cache = tls.NewLRUClientSessionCache(0)
	resumes(t, fresh, cache)
	testenv.Equal(t, resumes(t, fresh, cache), true, "a session of a server that has never had the folder")
}

// TestRun: keys are there once Run has begun, and it ends.
func TestRun(t *testing.T) {
	folder := t.TempDir()
	s := newServer(t, folder)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan bool)
	go func() {
		s.Run(ctx, s.config)
		close(ended)
	}()
	testenv.Until(t, "the file is there", func() bool {
		_, err := os.Stat(filepath.Join(folder, name))
		return err == nil
	})
	cancel()
	<-ended
}

// TestKeysInRedis: a session goes on at another server, whether Redis is there or not, if both have the key; the log has a line.
func TestKeysInRedis(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "redis.sock")
	end := testenv.Redis(t, socket)
	a, b := newServer(t, "unix://"+socket), newServer(t, "unix://"+socket)
	a.refreshed(0)
	b.refreshed(0)
	cache := tls.NewLRUClientSessionCache(0)
	resumes(t, a, cache)
	testenv.Equal(t, resumes(t, b, cache), true, "the session at the other server")
	end()
	for range 2 {
		b.refreshed(every)
	}
	testenv.Equal(t, resumes(t, b, cache), true, "the session without Redis")
	testenv.Equal(t, a.log.String(), "", "the log of a server while Redis is there")
	testenv.Equal(t, strings.Count(b.log.String(), "\n"), 1, "lines in %s", b.log.String())
}
