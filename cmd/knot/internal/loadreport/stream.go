package loadreport

import (
	"context"
	"encoding/binary"
	"io"
	"math"
	"time"

	"github.com/capriccio-go/capriccio/internal/orca"
	"github.com/capriccio-go/capriccio/internal/ownctx"
	"github.com/capriccio-go/capriccio/internal/peerwatch"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/task"
)

// streamPath is the method of the gRPC service.
const streamPath = "/xds.service.orca.v3.OpenRcaService/StreamCoreMetrics"

const (
	// maxStreams bounds the streams of reports: each holds a task and a stream of HTTP/2.
	maxStreams = 1000
	// maxAsked bounds the request of a stream, in bytes.
	maxAsked = 4 << 10
	// leastEvery is the shortest time between two reports; standardEvery is for requests that name none.
	leastEvery, standardEvery = time.Second, 30 * time.Second
)

// Statuses of gRPC.
const (
	grpcInvalid   = "3"
	grpcExhausted = "8"
	grpcAway      = "14"
)

// innerCtx has the methods of a *knot.Ctx that programs do not need, see internal/ownctx.
type innerCtx interface {
	WhenGone(w *peerwatch.Watch, fn func())
	TurnedAway() bool
}

// stream sends reports until the client has gone or the server stops. It parks.
func (r *Reporter) stream(x *knot.Ctx) error {
	if x.Method() != "POST" || x.Proto() != "HTTP/2.0" {
		return knot.Status(415)
	}
	if r.streams.Add(1) > maxStreams {
		r.streams.Add(-1)
		return endStream(x, grpcExhausted)
	}
	defer r.streams.Add(-1)
	every, ok := r.askedFor(x)
	if !ok {
		return endStream(x, grpcInvalid)
	}
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	var watch peerwatch.Watch
	ownctx.Of(x).(innerCtx).WhenGone(&watch, cancel)
	defer watch.Stop()
	x.SetContentType("application/grpc")
	out := make([]byte, 0, 1<<10)
	for {
		of := r.report()
		of.Cost = nil // those are of requests
		out = of.AppendBinary(append(out[:0], 0, 0, 0, 0, 0))
		binary.BigEndian.PutUint32(out[1:], uint32(len(out)-5))
		if _, err := x.Write(out); err != nil {
			return nil // the client has gone
		}
		if err := x.Flush(); err != nil {
			return nil
		}
		wait, stop := context.WithTimeout(ctx, every)
		task.Await(wait)
		stop()
		if ctx.Err() != nil || task.Context().Err() != nil {
			return x.AddTrailer("grpc-status", grpcAway)
		}
	}
}

// endStream answers with a status of gRPC alone.
func endStream(x *knot.Ctx, status string) error {
	x.AddHeader("grpc-status", status)
	return x.Send(200, "application/grpc", nil)
}

// askedFor reads the request of a stream. It parks.
func (r *Reporter) askedFor(x *knot.Ctx) (every time.Duration, ok bool) {
	message, err := io.ReadAll(io.LimitReader(x.Body(), maxAsked))
	if err != nil || len(message) < 5 || message[0] != 0 || int(binary.BigEndian.Uint32(message[1:])) != len(message)-5 {
		return 0, false
	}
	seconds, err := orca.ParseInterval(message[5:])
	if err != nil {
		return 0, false
	}
	if seconds <= 0 {
		return standardEvery, true
	}
	return max(time.Duration(math.Min(seconds, 1e6)*float64(time.Second)), leastEvery), true
}
