//go:build linux

package netpoll

// RaceEnabled is raceEnabled.
const RaceEnabled = raceEnabled
