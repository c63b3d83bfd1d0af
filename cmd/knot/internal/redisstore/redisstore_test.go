package redisstore

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

var (
	_ certmagic.Storage   = (*Storage)(nil)
	_ certmagic.TryLocker = (*Storage)(nil)
)

// A node is a Storage whose clock is a test's.
type node struct {
	*Storage
	log testenv.Buffer

	clock sync.Mutex
	time  time.Time // guarded by clock
	ticks map[time.Duration]chan time.Time
}

// newNode makes a node. It waits for as long as it takes to receive from the channel of ticks with that time.
func newNode(t *testing.T, url string) *node {
	n := &node{time: time.Unix(1_800_000_000, 0), ticks: make(map[time.Duration]chan time.Time)}
	n.Storage = testenv.Need(New(url, slog.New(slog.NewTextHandler(&n.log, nil))))(t)
	for _, d := range []time.Duration{lease / 3, poll, retry} {
		n.ticks[d] = make(chan time.Time)
	}
	n.now = func() time.Time {
		n.clock.Lock()
		defer n.clock.Unlock()
		return n.time
	}
	n.after = func(d time.Duration) <-chan time.Time { return n.ticks[d] }
	t.Cleanup(n.Close)
	return n
}

// pass lets pauses end.
func (n *node) pass() {
	n.clock.Lock()
	defer n.clock.Unlock()
	n.time = n.time.Add(pause)
}

// socketAndURL are those of a Redis to be.
func socketAndURL(t *testing.T) (socket, url string) {
	socket = filepath.Join(t.TempDir(), "redis.sock")
	return socket, "unix://" + socket
}

// prune deletes empty folders, which certmagic.FileStorage keeps.
func prune(t *testing.T, root string) {
	var folders []string
	testenv.Must(t, filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		if d.IsDir() && at != root {
			folders = append(folders, at)
		}
		return err
	}))
	for i := range folders {
		os.Remove(folders[len(folders)-1-i]) // fails for those that hold something
	}
}

// kind is what errors are compared by.
func kind(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "not there"
	case err != nil:
		return err.Error()
	}
	return ""
}

// TestLikeFolder: it does what certmagic.FileStorage does.
func TestLikeFolder(t *testing.T) {
	socket, url := socketAndURL(t)
	testenv.Redis(t, socket)
	n := newNode(t, url)
	other := newNode(t, url+"?prefix=other")
	testenv.Must(t, other.Store(t.Context(), "certificates/a/x.crt", []byte("other")))
	folder := &certmagic.FileStorage{Path: t.TempDir()}
	ctx, random := t.Context(), testenv.Rand(t, rand.Uint64())
	testenv.Must(t, errors.Join(n.Store(ctx, "kept", nil), folder.Store(ctx, "kept", nil))) // an empty storage is not there, an empty folder is
	folders := []string{"", "a", "certificates", "certificates/a", "certificates/a-b", "certificates/a.b", "certificates/a/b", "certificates/a*", "certificates/a0", "certificates/ä"}
	for range testenv.Rounds(600, 6000) {
		in := folders[random.IntN(len(folders))]
		file := path.Join(in, []string{"x.crt", "x.key", "y.json"}[random.IntN(3)])
		key := []string{in, file}[random.IntN(2)]
		switch random.IntN(8) {
		case 0, 1, 2:
			value := []byte(strings.Repeat("v\x00\n", random.IntN(5)) + strconv.Itoa(random.IntN(100)))
			testenv.Must(t, errors.Join(n.Store(ctx, file, value), folder.Store(ctx, file, value)), file)
		case 3:
			if key == "" {
				continue
			}
			testenv.Must(t, errors.Join(n.Delete(ctx, key), folder.Delete(ctx, key)), key)
			prune(t, folder.Path)
		case 4:
			value, err := n.Load(ctx, file)
			want, wantErr := folder.Load(ctx, file)
			testenv.MustEqual(t, string(value)+kind(err), string(want)+kind(wantErr), file)
		case 5:
			testenv.MustEqual(t, n.Exists(ctx, key), folder.Exists(ctx, key), key)
		case 6:
			recursive := random.IntN(2) == 0
			keys, err := n.List(ctx, key, recursive)
			want, wantErr := folder.List(ctx, key, recursive)
			testenv.MustEqual(t, kind(err), kind(wantErr), key)
			testenv.EqualSlices(t, keys, slices.Sorted(slices.Values(want)), key, recursive)
		default:
			info, err := n.Stat(ctx, key)
			want, wantErr := folder.Stat(ctx, key)
			testenv.MustEqual(t, kind(err), kind(wantErr), key)
			if err == nil {
				testenv.MustEqual(t, info.IsTerminal, want.IsTerminal, key)
			}
			if err == nil && info.IsTerminal {
				testenv.MustEqual(t, info.Size, want.Size, key)
				testenv.True(t, info.Modified.Sub(want.Modified).Abs() < time.Minute, "%s was modified at %v; want %v", key, info.Modified, want.Modified)
			}
		}
		if t.Failed() {
			return
		}
	}
	value, err := other.Load(ctx, "certificates/a/x.crt")
	testenv.Must(t, err)
	testenv.Equal(t, string(value), "other", "the value with another prefix")
	testenv.Equal(t, n.log.String(), "", "the log")
}

// TestOddValues: what is too large is not kept, and what something else has written there is not taken for a certificate.
func TestOddValues(t *testing.T) {
	socket, url := socketAndURL(t)
	testenv.Redis(t, socket)
	n, ctx := newNode(t, url), t.Context()
	testenv.ErrorSays(t, n.Store(ctx, "k", make([]byte, mostBytes+1)), "want 1048576 at most")
	testenv.Equal(t, n.Exists(ctx, "k"), false, "it is kept")
	testenv.Must(t, n.Store(ctx, "k", make([]byte, mostBytes)))
	testenv.Equal(t, len(testenv.Need(n.Load(ctx, "k"))(t)), mostBytes, "bytes")
	for _, odd := range []string{"", "odd", "x\ny", "1\n" + strings.Repeat("x", mostBytes+1)} {
		testenv.Must(t, n.client.HSet(ctx, n.values, "k", odd).Err())
		_, err := n.Load(ctx, "k")
		testenv.ErrorSays(t, err, "k in {knot}:values of Redis is not what knot has written there")
	}
	testenv.Must(t, n.client.Del(ctx, n.values).Err())
	testenv.Must(t, n.client.Set(ctx, n.values, "odd", 0).Err())
	for range 3 {
		_, err := n.Load(ctx, "k")
		testenv.ErrorSays(t, err, Unavailable+"WRONGTYPE")
	}
	testenv.Equal(t, strings.Count(n.log.String(), "\n"), 1, "lines in %s", n.log.String())
}

// TestRedisAway: calls fail at once, but for patient ones, and the log has a line when it goes and one when it is back.
func TestRedisAway(t *testing.T) {
	socket, url := socketAndURL(t)
	n, ctx := newNode(t, url), t.Context()
	fails := func() {
		t.Helper()
		_, err := n.Load(ctx, "k")
		testenv.ErrorSays(t, err, Unavailable)
		testenv.True(t, !errors.Is(err, fs.ErrNotExist), "%v: certmagic would get another", err)
		testenv.Equal(t, n.Exists(ctx, "k"), false, "it is there")
		testenv.ErrorSays(t, n.Lock(ctx, "k"), Unavailable)
	}
	fails()
	stop := testenv.Redis(t, socket)
	fails() // it is left alone
	n.pass()
	testenv.Must(t, n.Store(ctx, "k", []byte("v")))
	stop()
	fails()
	testenv.EqualSlices(t, words(n.log.String()), []string{"can't be asked", "is asked", "can't be asked"}, n.log.String())

	stored := make(chan error)
	go func() { stored <- n.Store(Patient(ctx), "later", nil) }()
	for range 2 {
		n.ticks[retry] <- time.Time{}
		n.pass()
	}
	testenv.Redis(t, socket)
	for err, done := error(nil), false; !done; {
		select {
		case err = <-stored:
			done = true
			testenv.Must(t, err)
		case n.ticks[retry] <- time.Time{}:
			n.pass()
		}
	}
	testenv.Equal(t, n.Exists(ctx, "later"), true, "it is there")
	testenv.Equal(t, len(words(n.log.String())), 4, "lines in %s", n.log.String())

	n.Close()
	testenv.ErrorIs(t, n.Store(Patient(ctx), "k", nil), context.Canceled, "after Close")
}

// words are those of the lines that the log has.
func words(log string) (all []string) {
	for line := range strings.Lines(log) {
		for _, word := range []string{"can't be asked", "is asked"} {
			if strings.Contains(line, word) {
				all = append(all, word)
			}
		}
	}
	return all
}

func TestURLs(t *testing.T) {
	for _, url := range []string{"", "localhost", "http://:secret@a", "redis://:secret@a:b:c", "redis://:secret@a:b:c?prefix=x"} {
		_, err := New(url, testenv.Quiet())
		testenv.ErrorSays(t, err, "want the URL of a Redis", url)
		testenv.True(t, !strings.Contains(err.Error(), "secret"), "%v", err)
	}
}
