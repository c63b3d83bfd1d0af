//go:build linux && !race

package simserver

const raceEnabled = false
