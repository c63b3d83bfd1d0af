package store

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestRangesAgainstNaive: random lists, against marking every byte.
func TestRangesAgainstNaive(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 9))
	for range 20_000 {
		size := r.Int64N(30)
		var text []string
		wanted := make([]bool, size)
		for range 1 + r.IntN(5) {
			from, to := r.Int64N(32), r.Int64N(32)
			switch r.IntN(3) {
			case 0:
				if from > to {
					from, to = to, from
				}
				text = append(text, fmt.Sprintf("%d-%d", from, to))
			case 1:
				text, to = append(text, fmt.Sprintf("%d-", from)), size
			default:
				text = append(text, fmt.Sprintf("-%d", to))
				from, to = max(0, size-to), size
			}
			for i := from; i <= to && i < size; i++ {
				wanted[i] = true
			}
		}
		list := "bytes=" + strings.Join(text, ",")
		got, ok := parseRanges(nil, []byte(list), size, 10)
		covered := make([]bool, size)
		for i, p := range got {
			for at := p.From; at < p.To; at++ {
				if covered[at] {
					t.Fatalf("%s of %d: byte %d twice in %v", list, size, at, got)
				}
				covered[at] = true
			}
			for _, q := range got[:i] {
				if p.From == q.To || q.From == p.To || p.From >= p.To {
					t.Fatalf("%s of %d: %v", list, size, got)
				}
			}
		}
		if ok != slices.Contains(wanted, true) || ok && !slices.Equal(covered, wanted) {
			t.Fatalf("%s of %d: %v, %v; want %v", list, size, got, ok, wanted)
		}
	}
}
