package admit

import (
	"cmp"
	"flag"
	"slices"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

var seedFlag = flag.Uint64("seed", 1, "first seed of the random tests")

// quick reports whether less is to be tested.
func quick() bool { return testing.Short() || testenv.Race || !testenv.Full() }

// A timeline is what is yet to happen in a simulation, the next first.
type timeline[T any] []entry[T]

type entry[T any] struct {
	at   time.Duration
	what T
}

func (t *timeline[T]) push(at time.Duration, what T) {
	i, _ := slices.BinarySearchFunc(*t, at, func(e entry[T], at time.Duration) int { return cmp.Or(cmp.Compare(e.at, at), -1) })
	*t = slices.Insert(*t, i, entry[T]{at, what})
}

func (t *timeline[T]) pop() T {
	next := (*t)[0].what
	*t = (*t)[1:]
	return next
}
