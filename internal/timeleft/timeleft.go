// Package timeleft reads and writes how long the client of a request will wait, as header lines say it: in milliseconds, or as gRPC
// does. It never parks.
package timeleft

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"time"
)

// GRPCHeader is the line in which gRPC has it.
const GRPCHeader = "grpc-timeout"

// longest is what longer times count as: none of them ends in the life of a server.
const longest = time.Duration(math.MaxInt64 / 4)

// maxDigits is how many digits a number may have. gRPC allows eight; more than fifteen are no time at all.
const maxDigits = 15

// A unit is one of gRPC.
type unit struct {
	name   string
	length time.Duration
}

// units are in ascending order. Hours have room for any time.
var units = []unit{
	{"n", time.Nanosecond}, {"u", time.Microsecond}, {"m", time.Millisecond}, {"S", time.Second}, {"M", time.Minute}, {"H", time.Hour},
}

// Milliseconds reads a whole number of milliseconds.
func Milliseconds(text []byte) (left time.Duration, ok bool) {
	return read(text, maxDigits, time.Millisecond)
}

// GRPC reads a number of at most eight digits and its unit: H, M, S, m, u or n.
func GRPC(text []byte) (left time.Duration, ok bool) {
	for _, u := range units {
		if digits, ok := bytes.CutSuffix(text, []byte(u.name)); ok {
			return read(digits, 8, u.length)
		}
	}
	return 0, false
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
	left = max(left, 0)
	u := units[slices.IndexFunc(units, func(u unit) bool { return left/u.length <= 99_999_999 })]
	return strconv.FormatInt(int64(left/u.length), 10) + u.name
}
