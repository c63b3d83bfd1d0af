// Command admit-failsafe is net/http with failsafe-go's adaptive limiter, with default
// settings, before the chores of the experiment admission.
package main

import (
	"os"

	"github.com/capriccio-go/capriccio/bench/internal/chores"
	"github.com/capriccio-go/capriccio/bench/peers/adaptive"
	"github.com/capriccio-go/capriccio/bench/peers/ready"
)

func main() {
	ready.Fail(chores.RunHTTP(os.Args[1:], os.Stdout, chores.Limits{Handler: adaptive.Limited}))
}
