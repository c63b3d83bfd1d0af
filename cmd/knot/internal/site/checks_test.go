package site

import (
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"github.com/capriccio-go/capriccio/internal/peerwatch"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
)

// A guest is a visitor that a test sends away.
type guest struct {
	addr  netip.Addr
	leave atomic.Pointer[func()] // set when it waits
}

func (g *guest) ClientAddr() netip.Addr                    { return g.addr }
func (g *guest) WhenGone(_ *peerwatch.Watch, leave func()) { g.leave.Store(&leave) }

func guestFrom(host int) *guest {
	return &guest{addr: netip.AddrFrom4([4]byte{192, 0, 2, byte(host)})}
}

// wait has g wait in q; done gets its result.
func (g *guest) wait(t *testing.T, q *turns) (done chan error) {
	t.Helper()
	done = make(chan error, 1)
	go func() { done <- q.take(g) }()
	testenv.Until(t, "the guest waits", func() bool { return g.leave.Load() != nil })
	return done
}

// TestClientsTakeTurns: one that sends many passwords does not hold up another, whose only one came last.
func TestClientsTakeTurns(t *testing.T) {
	q := newTurns(1, 100)
	testenv.Must(t, q.take(guestFrom(1)))
	var flood []chan error
	for range 50 {
		flood = append(flood, guestFrom(1).wait(t, q))
	}
	other := guestFrom(2).wait(t, q)
	q.end()
	testenv.Must(t, <-flood[0])
	q.end()
	testenv.Must(t, <-other)
	for _, done := range flood[1:] {
		q.end()
		testenv.Must(t, <-done) // in order
	}
	q.end()
	testenv.Equal(t, q.free, 1, "free")
	testenv.Equal(t, q.waiting+len(q.clients)+len(q.queues), 0, "left behind")
}

// TestPasswordsOfClientsThatHaveLeft are not checked.
func TestPasswordsOfClientsThatHaveLeft(t *testing.T) {
	var computed atomic.Int32
	users := usersOf(t, "a")
	checking := newTurns(1, 100)
	users.turns = checking
	users.compareHash = func(hash, password []byte) error { computed.Add(1); return bcrypt.ErrMismatchedHashAndPassword }
	testenv.Must(t, checking.take(guestFrom(1)))
	results := make(chan error, 50)
	guests := make([]*guest, cap(results))
	for i := range guests {
		guests[i] = guestFrom(i)
		go func() {
			_, err := users.check(guests[i], "a", "wrong")
			results <- err
		}()
	}
	for _, g := range guests {
		testenv.Until(t, "the guest waits", func() bool { return g.leave.Load() != nil })
	}
	for _, g := range guests[1:] {
		(*g.leave.Load())()
		testenv.ErrorIs(t, <-results, knot.Status(503), "of one that has left")
	}
	checking.end()
	testenv.Must(t, <-results)
	testenv.Equal(t, computed.Load(), 1, "hashes computed")
	testenv.Equal(t, checking.free, 1, "free")
}

// TestTooManyPasswords: those that are turned away are the last ones of the client with the most.
func TestTooManyPasswords(t *testing.T) {
	q := newTurns(0, 4)
	var flood []chan error
	for range 4 {
		flood = append(flood, guestFrom(1).wait(t, q))
	}
	testenv.ErrorIs(t, q.take(guestFrom(1)), knot.Status(503), "a fifth one")
	for host, pushedOut := range []int{3, 2} { // of hosts 2 and 3
		guestFrom(host+2).wait(t, q)
		testenv.ErrorIs(t, <-flood[pushedOut], knot.Status(503), "number %d", pushedOut)
	}
	testenv.Equal(t, q.waiting, 4, "waiting")
	testenv.Equal(t, fmt.Sprint(len(q.queues[guestFrom(1).addr]), len(flood[0])), "2 0", "the flood's")
}

func hashOf(t *testing.T, password string, cost int) string {
	return string(testenv.Need(bcrypt.GenerateFromPassword([]byte(password), cost))(t))
}

// TestWrongPasswordsTakeTheSameTime: whether there is a user of a name can't be told by the time, whatever the costs of the
// hashes and their order in the file. Time is counted in rounds of bcrypt.
func TestWrongPasswordsTakeTheSameTime(t *testing.T) {
	const dear = bcrypt.MinCost + 3
	users := testenv.Need(ReadUsers(strings.NewReader(fmt.Sprintf("dear:%s\ncheap:%s\n", hashOf(t, "right", dear), hashOf(t, "right", bcrypt.MinCost)))))(t)
	rounds := 0
	users.compareHash = func(hash, password []byte) error {
		cost := testenv.Need(bcrypt.Cost(hash))(t)
		rounds += 1 << cost
		return bcrypt.CompareHashAndPassword(hash, password)
	}
	for _, name := range []string{"dear", "cheap", "unknown"} {
		for _, password := range []string{"wrong", "", "right" + strings.Repeat("x", 100)} {
			rounds = 0
			right := users.compare(name, password)
			testenv.Equal(t, fmt.Sprint(right, rounds), fmt.Sprint(false, 1<<dear), "%s, %q", name, password)
		}
		testenv.Equal(t, users.compare(name, "right"), name != "unknown", "the right password of %s", name)
	}
}
