package testenv

import "github.com/capriccio-go/capriccio/internal/kernel"

// Race reports whether the race detector is on: everything is slower then, pools (sync.Pool) drop what they are
// given by chance, and nothing is detached, see docs/native-waits.md.
const Race = kernel.Race
