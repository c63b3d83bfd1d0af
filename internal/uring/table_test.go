//go:build linux

package uring

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestTable(t *testing.T) {
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(uint64(seed), 1))
	var table table
	model := make(map[Token]Completer)
	var gone []Token
	most := 0
	for range 20_000 {
		switch {
		case rnd.IntN(2) == 0:
			c := new(record)
			k := table.put(c)
			if _, there := model[k]; there || k == 0 {
				t.Fatalf("token %#x was given out", k)
			}
			model[k] = c
			most = max(most, len(model))
		case len(gone) > 0 && rnd.IntN(4) == 0:
			if k := gone[rnd.IntN(len(gone))]; table.find(k) != nil || table.take(k, true) != nil {
				t.Fatalf("token %#x is found again", k)
			}
		default:
			for k, c := range model {
				if got := table.take(k, false); got != c {
					t.Fatalf("token %#x: got %p, want %p", k, got, c)
				}
				if got := table.take(k, true); got != c {
					t.Fatalf("token %#x: got %p, want %p", k, got, c)
				}
				delete(model, k)
				gone = append(gone, k)
				break
			}
		}
	}
	if table.used != len(model) || len(table.tokens()) != len(model) || len(table.slots) != most {
		t.Errorf("%d used, %d listed, %d places; want %d, %d, %d", table.used, len(table.tokens()), len(table.slots), len(model), len(model), most)
	}
}

// The generation passes over 0, so that no token is 0.
func TestGenerationWraps(t *testing.T) {
	var table table
	table.take(table.put(new(record)), true)
	table.slots[0].generation = 1<<32 - 1
	if k := table.put(new(record)); k != 1<<32 {
		t.Errorf("token after the last generation: %#x, want 0x100000000", k)
	}
}
