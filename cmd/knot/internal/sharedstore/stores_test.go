package sharedstore

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A rig is a store that is to run the tests of all kinds.
type rig struct {
	url, other string                                     // of two prefixes
	start      func(t *testing.T) (stop func())           // skips the test where the program is not installed
	prepare    func(n *node)                              // nil: nothing
	isHeld     func(t *testing.T, n *node, l string) bool // looks into the store
	lose       func(t *testing.T, n *node, l string)      // the store loses a lock
	expire     func(t *testing.T, n *node, l string)      // lets a lease of n end without a renewal
	refuses    func(t *testing.T, n *node) string         // makes a URL with which the store refuses calls, and returns that
	refusal    string                                     // what it says then
}

// rigs make those of the kinds that are compiled in. The store is not started.
var rigs = map[string]func(t *testing.T) *rig{"Redis": redisRig}

// each runs a test with each kind.
func each(t *testing.T, test func(t *testing.T, r *rig)) {
	for kind, rig := range rigs {
		t.Run(kind, func(t *testing.T) { test(t, rig(t)) })
	}
}

func redisRig(t *testing.T) *rig {
	socket := filepath.Join(t.TempDir(), "redis.sock")
	url := "unix://" + socket
	store := func(n *node) *redisStore { return n.store.(*redisStore) }
	return &rig{
		url: url, other: url + "?prefix=other",
		start: func(t *testing.T) func() { return testenv.Redis(t, socket) },
		isHeld: func(t *testing.T, n *node, l string) bool {
			return testenv.Need(store(n).client.Exists(t.Context(), store(n).lockKey(l)).Result())(t) > 0
		},
		lose: func(t *testing.T, n *node, l string) {
			testenv.Must(t, store(n).client.Del(t.Context(), store(n).lockKey(l)).Err())
		},
		expire: func(t *testing.T, n *node, l string) {
			testenv.Must(t, store(n).client.PExpire(t.Context(), store(n).lockKey(l), 0).Err())
		},
		refuses: func(t *testing.T, n *node) string {
			testenv.Must(t, store(n).client.Set(t.Context(), store(n).values, "odd", 0).Err())
			return url
		},
		refusal: "WRONGTYPE",
	}
}

// TestRedisLease: a lock in Redis outlives its holder for a lease, and a renewal gives it another.
func TestRedisLease(t *testing.T) {
	r := redisRig(t)
	r.start(t)
	n, ctx := newNode(t, r), t.Context()
	testenv.Must(t, n.Lock(ctx, "l"))
	store := n.store.(*redisStore)
	lasts := func() time.Duration { return testenv.Need(store.client.PTTL(ctx, store.lockKey("l")).Result())(t) }
	testenv.True(t, lasts() > lease/2 && lasts() <= lease, "the lock of a holder that dies lasts for %v; want %v", lasts(), lease)
	testenv.Must(t, store.client.Expire(ctx, store.lockKey("l"), 5*time.Second).Err())
	n.ticks[lease/3] <- time.Time{}
	testenv.Until(t, "the lock is renewed", func() bool { return lasts() > lease/2 })
}

// TestOddValuesInRedis: a value that something else has written is not taken for a certificate.
func TestOddValuesInRedis(t *testing.T) {
	r := redisRig(t)
	r.start(t)
	n, ctx := newNode(t, r), t.Context()
	store := n.store.(*redisStore)
	for _, odd := range []string{"", "odd", "x\ny", "1\n" + strings.Repeat("x", mostBytes+1)} {
		testenv.Must(t, store.client.HSet(ctx, store.values, "k", odd).Err())
		_, err := n.Load(ctx, "k")
		testenv.ErrorSays(t, err, "k in the shared storage is not what knot has written there")
	}
	testenv.Equal(t, n.log.String(), "", "the log")
}

// TestURLs: errors say what to write, and have no password.
func TestURLs(t *testing.T) {
	want := map[string]string{
		"": "want the URL of a Redis", "localhost": "want the URL of a Redis", "http://:secret@a": "want the URL of a Redis",
		"redis://:secret@a:b:c": "want the URL of a Redis", "redis://:secret@a:b:c?prefix=x": "want the URL of a Redis", "redis://:secret@a:1/x": "want the URL of a Redis",
		"s3://secret:secret@bucket": "AWS_SECRET_ACCESS_KEY", "s3:///path": "want the URL of a bucket", "s3://bucket?secret=x": "want the URL of a bucket",
		"s3://bucket?endpoint=10.0.0.7:9000": "the endpoint of a bucket is no URL", "s3://bucket?endpoint=https://secret:secret@h": "AWS_SECRET_ACCESS_KEY",
		"consul://secret@h:8500": "CONSUL_HTTP_TOKEN", "consul:///x": "want the URL of a Consul", "consul+https://h:8501?token=secret": "want the URL of a Consul",
	}
	for url, says := range want {
		scheme, _, _ := strings.Cut(url, ":")
		if of := schemes[scheme]; of.tag != "" && openers[of.kind] == nil {
			says = "go build -tags " + of.tag
		}
		_, err := New(url, testenv.Quiet())
		testenv.ErrorSays(t, err, says, url)
		testenv.True(t, !strings.Contains(err.Error(), "secret"), "%v", err)
	}
}
