package main

import (
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestFlat(t *testing.T) {
	looks := func(grows string, by float64) (all []map[string]float64) {
		for i := range 60 {
			look := map[string]float64{"resident": 50, "descriptors": 40, "goroutines": 30, "connections": 20}
			look[grows] += by * float64(i)
			all = append(all, look)
		}
		return all
	}
	testenv.Check(t, flat(looks("resident", 0)))
	for name := range soakUnits {
		testenv.ErrorSays(t, flat(looks(name, 2)), name+" have grown", name)
	}
	testenv.Fails(t, flat(looks("resident", 0)[:3]), "three looks are enough")
}
