package main

import (
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A rise of the goroutines at an overload is no leak; a rise between two overloads is one.
func TestGoroutinesBetweenOverloads(t *testing.T) {
	looks := func(goroutines ...float64) (all []map[string]float64) {
		for _, n := range goroutines {
			all = append(all, map[string]float64{"goroutines": n})
		}
		return all
	}
	overloads := []int64{0, 0, 1, 1, 1, 1, 2, 2, 2, 2}
	testenv.Check(t, flat(betweenOverloads(looks(100, 110, 900, 905, 900, 905, 1200, 1205, 1200, 1205), overloads)))
	testenv.Check(t, flat(betweenOverloads(looks(100, 110, 115, 905, 900, 905, 910, 1205, 1200, 1205), overloads)), "overloads that had just begun")
	testenv.ErrorSays(t, flat(betweenOverloads(looks(100, 110, 900, 950, 1000, 1050, 1200, 1300, 1400, 1500), overloads)), "goroutines have grown")
}
