package h2

import (
	"net/http"
	"time"

	"github.com/capriccio-go/capriccio/knot/internal/clock"
)

// DefaultMaxStreams is how many requests a client may have under way on a connection.
const DefaultMaxStreams = 100

const (
	pingAfter     = 30 * time.Second
	pingWait      = 15 * time.Second
	defaultWindow = 1 << 20   // of a connection and of each stream, in bytes
	frameSize     = 16 << 10  // the least that can be set, and the largest frame that is sent
	tableSize     = 4 << 10   // of HPACK, what both sides begin with
	FirstWindow   = 1<<16 - 1 // ... and of windows
	largestID     = 1<<31 - 1
)

// Limits bound what a client may do. Sizes are in bytes; a time of 0 is none.
type Limits struct {
	Streams                    uint32
	Frame                      uint32 // largest that is read
	Window, ConnWindow         int64
	Table, EncoderTable        uint32
	PingAfter, PingWait, Write time.Duration
	Count                      func(string) // of errors; not nil

	Head     int           // largest of a request
	HeadTime time.Duration // for how long a head may take
	Idle     time.Duration // for how long a connection may have no request
	Farewell time.Duration // for how long a client may take to know that it should go
	Linger   time.Duration // for how long what still comes is dropped, when our side has ended
}

// LimitsOf are the limits that given asks for, with defaults: write is that of the timeout for writes. The limits that
// given does not have are 0.
func LimitsOf(given *http.HTTP2Config, write time.Duration) Limits {
	if given == nil {
		// A client from which nothing has come for so long is asked whether it is there.
		given = &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingWait}
	}
	between := func(v, standard, least, most int) int {
		if v == 0 {
			return standard
		}
		return min(max(v, least), most)
	}
	l := Limits{
		Streams:      uint32(between(given.MaxConcurrentStreams, DefaultMaxStreams, 1, 1<<20)),
		Frame:        uint32(between(given.MaxReadFrameSize, frameSize, frameSize, 1<<24-1)),
		Window:       int64(between(given.MaxReceiveBufferPerStream, defaultWindow, FirstWindow, largestID)),
		ConnWindow:   int64(between(given.MaxReceiveBufferPerConnection, defaultWindow, FirstWindow, largestID)),
		Table:        uint32(between(given.MaxDecoderHeaderTableSize, tableSize, 0, 4<<20)),
		EncoderTable: uint32(between(given.MaxEncoderHeaderTableSize, tableSize, 0, 4<<20)),
		PingAfter:    clock.Timeout(given.SendPingTimeout, 0),
		PingWait:     clock.Timeout(given.PingTimeout, pingWait),
		Write:        clock.Timeout(given.WriteByteTimeout, write),
		Count:        given.CountError,
	}
	if l.Count == nil {
		l.Count = func(string) {}
	}
	return l
}
