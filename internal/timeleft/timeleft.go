// Package timeleft reads and writes how long the client of a request will wait, as header lines say it: in milliseconds, or as gRPC
// does. It never parks.
package timeleft

import (
	"math"
	"strconv"
	"time"
)

// GRPCHeader is the line in which gRPC has it.
const GRPCHeader = "grpc-timeout"

// longest is what longer times count as: none of them ends in the life of a server.
const longest = time.Duration(math.MaxInt64 / 4)

// maxDigits is how many digits a number may have. gRPC allows eight; more than fifteen are no time at all.
const maxDigits = 15

// Milliseconds reads a whole number of milliseconds.
func Milliseconds(text []byte) (left time.Duration, ok bool) {
	return read(text, maxDigits, time.Millisecond)
}

// GRPC reads a number of at most eight digits and its unit: H, M, S, m, u or n.
func GRPC(text []byte) (left time.Duration, ok bool) {
	if len(text) == 0 {
		return 0, false
	}
	digits, unit := text[:len(text)-1], time.Duration(0)
	switch text[len(digits)] {
	case 'H':
		unit = time.Hour
	case 'M':
		unit = time.Minute
	case 'S':
		unit = time.Second
	case 'm':
		unit = time.Millisecond
	case 'u':
		unit = time.Microsecond
	case 'n':
		unit = time.Nanosecond
	default:
		return 0, false
	}
	return read(digits, 8, unit)
}

func read(digits []byte, most int, unit time.Duration) (time.Duration, bool) {
	if len(digits) == 0 || len(digits) > most {
		return 0, false
	}
	n := time.Duration(0)
	for _, ch := range digits {
		if ch < '0' || ch > '9' {
			return 0, false
		}
		n = n*10 + time.Duration(ch-'0')
	}
	if n > longest/unit {
		return longest, true
	}
	return n * unit, true
}

// FormatMilliseconds is what Milliseconds reads; parts of a millisecond are left out.
func FormatMilliseconds(left time.Duration) string {
	return strconv.FormatInt(max(left.Milliseconds(), 0), 10)
}

// FormatGRPC is what GRPC reads, in the smallest unit that has room for it.
func FormatGRPC(left time.Duration) string {
	const most = 99_999_999
	left = max(left, 0)
	for _, u := range [...]struct {
		unit time.Duration
		name string
	}{{time.Nanosecond, "n"}, {time.Microsecond, "u"}, {time.Millisecond, "m"}, {time.Second, "S"}, {time.Minute, "M"}} {
		if left/u.unit <= most {
			return strconv.FormatInt(int64(left/u.unit), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(min(left/time.Hour, most)), 10) + "H"
}
