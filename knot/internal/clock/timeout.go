package clock

import "time"

// maxTimeout is the longest timeout, in nanoseconds; a longer one is none at all. Twice it
// and the age of the server are still a reading of the clock.
const maxTimeout = time.Duration(1 << 61)

// Timeout is v as a timeout that a connection waits for: 0 for none, which a negative v asks for, or one that is too long;
// standard if v is 0.
func Timeout(v, standard time.Duration) time.Duration {
	if v == 0 {
		v = standard
	}
	if v < 0 || v > maxTimeout {
		return 0
	}
	return v
}
