package sharedstore

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
func newNode(t *testing.T, r *rig) *node { return newNodeAt(t, r, r.url) }

func newNodeAt(t *testing.T, r *rig, url string) *node {
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
	if r.prepare != nil {
		r.prepare(n)
	}
	t.Cleanup(n.Close)
	return n
}

func (n *node) pass(d time.Duration) {
	n.clock.Lock()
	defer n.clock.Unlock()
	n.time = n.time.Add(d)
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
func TestLikeFolder(t *testing.T) { each(t, testLikeFolder) }

func testLikeFolder(t *testing.T, r *rig) {
	r.start(t)
	n, other := newNode(t, r), newNodeAt(t, r, r.other)
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

// TestLargeValues: a value above the limit is not kept.
func TestLargeValues(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.start(t)
		n, ctx := newNode(t, r), t.Context()
		testenv.ErrorSays(t, n.Store(ctx, "k", make([]byte, mostBytes+1)), "want 524288 at most")
		testenv.Equal(t, n.Exists(ctx, "k"), false, "it is kept")
		testenv.Must(t, n.Store(ctx, "k", make([]byte, mostBytes)))
		testenv.Equal(t, len(testenv.Need(n.Load(ctx, "k"))(t)), mostBytes, "bytes")
	})
}

// TestRefusal: a store that refuses is asked again each time, and the log has one line for each text, and few in all.
func TestRefusal(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.start(t)
		n := newNodeAt(t, r, r.refuses(t, newNode(t, r)))
		for range 3 {
			_, err := n.Load(t.Context(), "k")
			testenv.ErrorSays(t, err, Unavailable)
			testenv.ErrorSays(t, err, r.refusal)
			testenv.True(t, !errors.Is(err, fs.ErrNotExist), "%v: certmagic would get another", err)
		}
		testenv.Equal(t, strings.Count(n.log.String(), "\n"), 1, "lines in %s", n.log.String())
		for i := range 2 * maxRefused {
			n.Load(t.Context(), strconv.Itoa(i))
		}
		testenv.AtMost(t, strings.Count(n.log.String(), "\n"), maxRefused, "lines in %s", n.log.String())
		testenv.Contains(t, n.log.String(), "refuses to keep certificates or to give them")
	})
}

// TestStoreAway: calls fail at once, but for patient ones, and the log has a line when it goes and one when it is back.
func TestStoreAway(t *testing.T) { each(t, testStoreAway) }

func testStoreAway(t *testing.T, r *rig) {
	n, ctx := newNode(t, r), t.Context()
	fails := func() {
		t.Helper()
		_, err := n.Load(ctx, "k")
		testenv.ErrorSays(t, err, Unavailable)
		testenv.True(t, !errors.Is(err, fs.ErrNotExist), "%v: certmagic would get another", err)
		testenv.Equal(t, n.Exists(ctx, "k"), false, "it is there")
		testenv.ErrorSays(t, n.Lock(ctx, "k"), Unavailable)
	}
	fails()
	stop := r.start(t)
	fails() // it is left alone
	n.pass(pause)
	testenv.Must(t, n.Store(ctx, "k", []byte("v")))
	stop()
	fails()
	testenv.EqualSlices(t, words(n.log.String()), []string{"can't be asked", "is asked", "can't be asked"}, n.log.String())

	stored := make(chan error)
	go func() { stored <- n.Store(Patient(ctx), "later", nil) }()
	for range 2 {
		n.ticks[retry] <- time.Time{}
		n.pass(pause)
	}
	r.start(t)
	for err, done := error(nil), false; !done; {
		select {
		case err = <-stored:
			done = true
			testenv.Must(t, err)
		case n.ticks[retry] <- time.Time{}:
			n.pass(pause)
		}
	}
	testenv.Equal(t, n.Exists(ctx, "later"), true, "it is there")
	testenv.Equal(t, len(words(n.log.String())), 4, "lines in %s", n.log.String())

	testenv.True(t, !strings.Contains(n.log.String(), "topsecret"), "the log has a credential: %s", n.log.String())
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
