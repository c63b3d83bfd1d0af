//go:build knot_storage_s3

package sharedstore

import (
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func init() { rigs["S3"], rigs["S3 of files"] = s3Rig, versityRig }

// versityRig is a server that keeps a bucket in files, by versitygw.
func versityRig(t *testing.T) *rig {
	r := s3Rig(t)
	u := testenv.Need(url.Parse(r.url))(t)
	addr := strings.TrimPrefix(u.Query().Get("endpoint"), "http://")
	r.start = func(t *testing.T) (stop func()) {
		program := testenv.Program(t, "versitygw")
		root := t.TempDir()
		testenv.Must(t, os.Mkdir(filepath.Join(root, "certs"), 0o700))
		cmd := exec.Command(program, "--port", addr, "--access", "knot", "--secret", "topsecret", "--region", "eu-west-1", "--keep-alive", "--quiet", "posix", root)
		testenv.Must(t, cmd.Start())
		return stops(t, cmd, addr)
	}
	return r
}

// serveS3 serves an empty bucket at an address until stop.
func serveS3(t *testing.T, addr string, wrap func(http.Handler) http.Handler) (stop func()) {
	memory := s3mem.New()
	testenv.Must(t, memory.CreateBucket("certs"))
	ln := testenv.Need(net.Listen("tcp", addr))(t)
	server := &http.Server{Handler: wrap(gofakes3.New(memory).Server())}
	ended := make(chan bool)
	go func() {
		server.Serve(ln)
		close(ended)
	}()
	stop = func() {
		server.Close()
		<-ended
	}
	t.Cleanup(stop)
	return stop
}

func s3Rig(t *testing.T) *rig { return s3RigOf(t, func(h http.Handler) http.Handler { return h }) }

func s3RigOf(t *testing.T, wrap func(http.Handler) http.Handler) *rig {
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "knot", "AWS_SECRET_ACCESS_KEY": "topsecret", "AWS_SESSION_TOKEN": "", "AWS_REGION": "", "AWS_PROFILE": "",
		"AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null", "AWS_EC2_METADATA_DISABLED": "true",
	} {
		t.Setenv(name, value)
	}
	addr := freeAddr(t)
	at := "?region=eu-west-1&endpoint=" + url.QueryEscape("http://"+addr)
	store := func(n *node) *s3Store { return n.store.(*s3Store) }
	return &rig{
		url: "s3://certs/a/b" + at, other: "s3://certs" + at,
		start:   func(t *testing.T) func() { return serveS3(t, addr, wrap) },
		prepare: func(n *node) { store(n).now = n.now },
		isHeld: func(t *testing.T, n *node, l string) bool {
			holder, _, err := store(n).readLock(t.Context(), l)
			testenv.Must(t, err)
			return holder != ""
		},
		lose: func(t *testing.T, n *node, l string) {
			key := store(n).lockKey(l)
			testenv.Must(t, testenv.Err(store(n).client.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: &store(n).bucket, Key: &key})))
		},
		expire:  func(t *testing.T, n *node, l string) { n.pass(lease) },
		refuses: func(t *testing.T, n *node) string { return "s3://other" + at },
		refusal: "NoSuchBucket",
	}
}

// TestRenewalMoves: a lock of S3 that is renewed is never over, however long another server waits.
func TestRenewalMoves(t *testing.T) {
	r := s3Rig(t)
	r.start(t)
	a, b := newNode(t, r), newNode(t, r)
	testenv.Must(t, a.Lock(t.Context(), "l"))
	for range 4 {
		testenv.Equal(t, testenv.Need(b.TryLock(t.Context(), "l"))(t), false, "the lock is free")
		key, before := a.store.(*s3Store).lockKey("l"), etagOf(t, a, "l")
		a.ticks[lease/3] <- time.Time{}
		testenv.Until(t, key+" is renewed", func() bool { return etagOf(t, a, "l") != before })
		b.pass(lease)
	}
	b.pass(lease)
	testenv.Equal(t, testenv.Need(b.TryLock(t.Context(), "l"))(t), false, "the lock is free when its renewal is first seen")
	b.pass(lease)
	testenv.Equal(t, testenv.Need(b.TryLock(t.Context(), "l"))(t), true, "the lock of a holder that has died is free")
}

func etagOf(t *testing.T, n *node, l string) string {
	_, etag, err := n.store.(*s3Store).readLock(t.Context(), l)
	testenv.Must(t, err)
	return etag
}

// TestNoConditions: a server that ignores conditions gives no locks, rather than one to each.
func TestNoConditions(t *testing.T) {
	r := s3RigOf(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Header.Del("If-None-Match")
			h.ServeHTTP(w, r)
		})
	})
	r.start(t)
	n := newNode(t, r)
	for range 2 {
		testenv.ErrorSays(t, n.Lock(t.Context(), "l"), "the server ignores If-None-Match")
	}
	testenv.Contains(t, n.log.String(), "knot: S3 refuses to keep certificates")
}

// TestIllServer: an answer of 5xx is a store that is away, and is not asked again at once.
func TestIllServer(t *testing.T) {
	asked := 0
	r := s3RigOf(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked++
			w.WriteHeader(http.StatusServiceUnavailable)
		})
	})
	stop := r.start(t)
	n := newNode(t, r)
	for range 3 {
		_, err := n.Load(t.Context(), "k")
		testenv.ErrorSays(t, err, Unavailable)
	}
	stop()
	testenv.Equal(t, asked, 1, "requests")
	testenv.Contains(t, n.log.String(), "knot: S3 can't be asked for certificates")
}

// TestManyKeys: folders of more keys than S3 lists at a time.
func TestManyKeys(t *testing.T) {
	r := s3Rig(t)
	r.start(t)
	n, ctx := newNode(t, r), t.Context()
	keys := 1001
	for i := range keys {
		testenv.Must(t, n.Store(ctx, "certificates/"+time.Duration(i).String(), nil))
	}
	testenv.Equal(t, len(testenv.Need(n.List(ctx, "certificates", true))(t)), keys, "keys")
	testenv.Must(t, n.Delete(ctx, "certificates"))
	testenv.Equal(t, n.Exists(ctx, "certificates"), false, "they are there")
}
