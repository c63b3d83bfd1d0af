package sched

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// exactStride is stride scheduling in rational numbers, with the rules that Stride's
// comment states, written down as directly as possible.
type exactStride struct {
	pass    map[Node]*big.Rat // in cycles per ticket
	tickets map[Node]int64
	active  map[Node]bool
	now     *big.Rat
}

func newExactStride() *exactStride {
	return &exactStride{map[Node]*big.Rat{}, map[Node]int64{}, map[Node]bool{}, new(big.Rat)}
}

func (s *exactStride) node(n Node) {
	if s.pass[n] == nil {
		s.pass[n], s.tickets[n] = new(big.Rat), DefaultTickets
	}
}

// whole rounds a pass down to the units of Stride.
func whole(pass *big.Rat) *big.Int {
	scaled := new(big.Rat).Mul(pass, big.NewRat(passScale, 1))
	return new(big.Int).Div(scaled.Num(), scaled.Denom())
}

// advance moves the virtual time to the lowest pass, which is what Stride sees of it: a
// whole number.
func (s *exactStride) advance() {
	var least *big.Int
	for n := range s.active {
		if w := whole(s.pass[n]); least == nil || w.Cmp(least) < 0 {
			least = w
		}
	}
	if least != nil {
		s.now.SetFrac(least, big.NewInt(passScale))
	}
}

func (s *exactStride) catchUp(n Node) {
	s.node(n)
	if s.pass[n].Cmp(s.now) < 0 {
		s.pass[n].Set(s.now)
	}
}

func (s *exactStride) join(n Node) {
	if s.node(n); !s.active[n] {
		s.catchUp(n)
		s.active[n] = true
		s.advance()
	}
}

func (s *exactStride) leave(n Node) {
	delete(s.active, n)
	s.advance()
}

func (s *exactStride) charge(n Node, cycles uint64) {
	s.node(n)
	s.pass[n].Add(s.pass[n], big.NewRat(int64(cycles), s.tickets[n]))
	s.advance()
}

func (s *exactStride) setTickets(n Node, t int64) {
	if s.node(n); t == s.tickets[n] {
		return
	}
	s.catchUp(n)
	ahead := new(big.Rat).Sub(s.pass[n], s.now)
	ahead.Mul(ahead, big.NewRat(s.tickets[n], t))
	s.pass[n].Add(s.now, ahead)
	s.tickets[n] = t
	s.advance()
}

func (s *exactStride) min() (best Node, ok bool) {
	for n := range s.active {
		if !ok {
			best, ok = n, true
		} else if c := whole(s.pass[n]).Cmp(whole(s.pass[best])); c < 0 || c == 0 && n < best {
			best = n
		}
	}
	return best, ok
}

// checkAgainst compares all passes exactly: they must be equal as rational numbers,
// counted from the virtual time, for all nodes that are not behind it.
func (s *exactStride) checkAgainst(t *testing.T, got *Stride) {
	t.Helper()
	for n, exact := range s.pass {
		want := new(big.Rat).Sub(exact, s.now)
		if want.Sign() < 0 {
			continue
		}
		nd := &got.nodes[n]
		have := new(big.Rat).SetFrac64(int64(nd.rest), int64(nd.tickets))
		have.Add(have, new(big.Rat).SetInt64(int64(nd.pass)-int64(got.now)))
		have.Mul(have, big.NewRat(1, passScale))
		if have.Cmp(want) != 0 {
			t.Fatalf("node %d is %v cycles per ticket ahead, want %v", n, have, want)
		}
	}
}

func TestStrideEqualsTheExactOne(t *testing.T) {
	eachSeed(t, 150, func(t *testing.T, rng *rand.Rand) {
		var s Stride
		exact := newExactStride()
		nodes := 1 + rng.IntN(20)
		long := rng.IntN(4) == 0 // long quanta and few tickets: passes are renormalised
		for range 400 {
			n := Node(rng.IntN(nodes))
			switch rng.IntN(10) {
			case 0, 1:
				s.Join(n)
				exact.join(n)
			case 2:
				s.Leave(n)
				exact.leave(n)
			case 3:
				k := 1 + rng.IntN(1000)
				if long {
					k = 1 + rng.IntN(3)
				}
				s.SetTickets(n, k)
				exact.setTickets(n, int64(k))
			default:
				got, ok := s.Min()
				want, wantOK := exact.min()
				if got != want || ok != wantOK {
					t.Fatalf("chose %v, %v; want %v, %v", got, ok, want, wantOK)
				}
				if !ok {
					continue
				}
				cycles := uint64(rng.IntN(100_000))
				if long {
					cycles = uint64(rng.IntN(maxQuantum))
				}
				if rng.IntN(5) == 0 { // its last task: it leaves before it is charged
					s.Leave(got)
					exact.leave(got)
				}
				s.Charge(got, cycles)
				exact.charge(got, cycles)
			}
			exact.checkAgainst(t, &s)
		}
	})
}

func TestStrideRenormalises(t *testing.T) {
	var s Stride
	s.SetTickets(0, 1)
	s.SetTickets(1, 1)
	s.SetTickets(2, 1)
	s.Join(0)
	s.Join(1)
	s.Charge(2, 1) // away, and behind before long
	last, times := uint64(0), 0
	counts := [3]int{}
	for range 100 {
		n, _ := s.Min()
		s.Charge(n, maxQuantum)
		counts[n]++
		if s.now < last {
			times++
		}
		last = s.now
	}
	if times < 5 {
		t.Errorf("renormalised %d times, want more", times)
	}
	testenv.Equal(t, counts, [3]int{50, 50, 0}, "quanta")
	s.Join(2)
	if n, _ := s.Min(); s.Pass(2) != s.Pass(n) {
		t.Errorf("joined with pass %d, want %d", s.Pass(2), s.Pass(n))
	}
}

func TestStrideWithoutNodes(t *testing.T) {
	var s Stride
	if _, ok := s.Min(); ok {
		t.Error("an empty Stride has a least node")
	}
	s.Leave(3)
	s.Join(3)
	s.Leave(3)
	if _, ok := s.Min(); ok {
		t.Error("node 3 has left and is still chosen")
	}
	if s.Tickets(1000) != DefaultTickets || s.Pass(1000) != 0 {
		t.Error("a node never heard of is not neutral")
	}
}

func quanta() []uint64 {
	rng := rand.New(rand.NewPCG(3, 0))
	q := make([]uint64, 4096)
	for i := range q {
		q[i] = uint64(1000 + rng.IntN(60_000))
	}
	return q
}

// BenchmarkStride is one choice and one charge.
func BenchmarkStride(b *testing.B) {
	q := quanta()
	for _, nodes := range []int{10, 100, 1000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(2, 0))
			var s Stride
			for n := range Node(nodes) {
				s.SetTickets(n, 16+rng.IntN(4096))
				s.Join(n)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				n, _ := s.Min()
				s.Charge(n, q[i&4095])
			}
		})
	}
}
