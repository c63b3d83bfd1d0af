package task

import (
	"flag"
	"math/rand/v2"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the random schedules; 0 picks one")

func newRand(t testing.TB) *rand.Rand { return testenv.Rand(t, *seedFlag) }
