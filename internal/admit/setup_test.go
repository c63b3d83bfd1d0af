package admit

import (
	"flag"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

var seedFlag = flag.Uint64("seed", 1, "first seed of the random tests")

// quick reports whether less is to be tested.
func quick() bool { return testing.Short() || testenv.Race || !testenv.Full() }
