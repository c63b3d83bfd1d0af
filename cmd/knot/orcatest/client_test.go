package orcatest

import (
	"context"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	_ "google.golang.org/grpc/balancer/weightedroundrobin"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/loadreport"
	"github.com/capriccio-go/capriccio/internal/orca"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/knottest"
)

// A worker is a server with one processor, of which each request takes cost.
type worker struct {
	cost   time.Duration
	served atomic.Uint64
	addr   string
}

// serve starts it on a port of its own.
func (w *worker) serve(t *testing.T) {
	began := time.Now()
	reports, err := loadreport.New("always")
	if err != nil {
		t.Fatal(err)
	}
	reports.Begin(loadreport.NewReporter(t.Context(), loadreport.Source{
		Stats: func() (s knot.Stats) {
			s.Responses[2] = w.served.Load()
			return s
		},
		CPU:       func() time.Duration { return time.Duration(w.served.Load()) * w.cost },
		Resources: func() []orca.Value { return nil }, Queued: func() int { return 0 }, Procs: func() int { return 1 },
		Now: func() time.Duration { return time.Since(began) },
	}))
	work := func(x *knot.Ctx) error {
		w.served.Add(1)
		if _, err := io.Copy(io.Discard, x.Body()); err != nil {
			return err
		}
		x.SetContentType("application/grpc")
		x.Write([]byte{0, 0, 0, 0, 0}) // an empty message
		return x.AddTrailer("grpc-status", "0")
	}
	url := knottest.Serve(t, &knot.Server{H2C: true, Handler: func(x *knot.Ctx) error {
		reports.Prepare(x)
		if answered, err := reports.Handle(x); answered {
			return err
		}
		return reports.Around(x, work)
	}})
	w.addr = url[len("http://"):]
}

// TestWeightedRoundRobin: of three servers one is half as fast; gRPC's balancer learns it from the reports, by the stream of the
// service OpenRcaService or with each response, and gives it half of what the others get.
func TestWeightedRoundRobin(t *testing.T) {
	for name, oob := range map[string]string{"stream": "true", "responses": "false"} {
		t.Run(name, func(t *testing.T) {
			workers := []*worker{{cost: 20 * time.Microsecond}, {cost: 20 * time.Microsecond}, {cost: 40 * time.Microsecond}}
			servers := manual.NewBuilderWithScheme("fleet")
			var state resolver.State
			for _, w := range workers {
				w.serve(t)
				state.Endpoints = append(state.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: w.addr}}})
			}
			servers.InitialState(state)
			conn, err := grpc.NewClient("fleet:///workers", grpc.WithResolvers(servers), grpc.WithTransportCredentials(insecure.NewCredentials()),
				grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"weighted_round_robin":{"enableOobLoadReport":`+oob+
					`,"oobReportingPeriod":"1s","blackoutPeriod":"0s","weightUpdatePeriod":"0.1s"}}]}`))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			for {
				before := [3]uint64{}
				for i, w := range workers {
					before[i] = w.served.Load()
				}
				for range 500 {
					if err := conn.Invoke(ctx, "/test.Worker/Work", &emptypb.Empty{}, &emptypb.Empty{}); err != nil {
						t.Fatal(err)
					}
				}
				var part [3]float64
				for i, w := range workers {
					part[i] = float64(w.served.Load()-before[i]) / 500
				}
				if part[2] > 0.18 && part[2] < 0.22 && part[0] > 0.37 && part[0] < 0.43 {
					t.Logf("parts of the requests: %.3v; want 0.4, 0.4, 0.2", part)
					return
				}
				if ctx.Err() != nil {
					t.Fatalf("parts of the requests: %.3v; want 0.4, 0.4, 0.2", part)
				}
			}
		})
	}
}
