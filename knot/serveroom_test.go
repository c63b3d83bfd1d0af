package knot

import (
	"net/http"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestServeLeavesDescriptorsToHandlers: where descriptors are few, no more requests are served at a time than can
// have a connection of their own each.
func TestServeLeavesDescriptorsToHandlers(t *testing.T) {
	var limit unix.Rlimit
	testenv.Must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	const room = 100
	few := limit
	few.Cur = uint64(countFDs() + room)
	testenv.Must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &few))
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
	var h http.Handler = http.NotFoundHandler()
	s := likeHTTP(&h)
	s.ready()
	defer s.Close()
	if n := s.limits.conns; n < 1 || n > room/2 {
		t.Errorf("with %d descriptors there are %d connections at a time, want at most %d", room, n, room/2)
	}
}
