// Command grpc-balancers are clients of gRPC as balancers of the experiment fleet: each listens for plain requests, and asks one
// of the servers for each, which its own connections of grpc-go choose.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc"
	_ "google.golang.org/grpc/balancer/weightedroundrobin"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"

	"github.com/capriccio-go/capriccio/bench/peers/ready"
)

func main() {
	n := flag.Int("n", 1, "how many")
	config := flag.String("config", "", "service configuration of gRPC")
	servers := flag.String("servers", "", "addresses, with commas between")
	patience := flag.Duration("patience", 0, "how long users wait, the deadline of a call")
	flag.Parse()
	var addrs listening
	for range *n {
		conn, err := dial(strings.Split(*servers, ","), *config)
		if err != nil {
			ready.Fail(err)
		}
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			ready.Fail(err)
		}
		addrs = append(addrs, ln.Addr().String())
		go func() { ready.Fail(http.Serve(ln, &balancer{conn, *patience})) }()
	}
	ready.Listening(addrs)
	select {}
}

type listening []string

func (l listening) String() string { return strings.Join(l, ",") }

// dial makes a client that knows nothing of others.
func dial(servers []string, config string) (*grpc.ClientConn, error) {
	names := manual.NewBuilderWithScheme("fleet")
	var state resolver.State
	for _, addr := range servers {
		state.Endpoints = append(state.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: addr}}})
	}
	names.InitialState(state)
	conn, err := grpc.NewClient("fleet:///servers", grpc.WithResolvers(names), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(config), grpc.WithDefaultCallOptions(grpc.ForceCodecV2(empty{})))
	if err == nil {
		conn.Connect()
	}
	return conn, err
}

// empty is a codec whose messages have no content.
type empty struct{}

func (empty) Name() string                         { return "proto" }
func (empty) Marshal(any) (mem.BufferSlice, error) { return nil, nil }
func (empty) Unmarshal(mem.BufferSlice, any) error { return nil }

type balancer struct {
	conn     *grpc.ClientConn
	patience time.Duration
}

func (b *balancer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), b.patience)
	defer cancel()
	err := b.conn.Invoke(ctx, "/fleet.Server/Serve", nil, nil)
	switch {
	case err == nil:
		fmt.Fprint(w, ready.Body)
	case errors.Is(r.Context().Err(), context.Canceled):
	case status.Code(err) == codes.Unavailable:
		w.WriteHeader(http.StatusServiceUnavailable)
	default:
		w.WriteHeader(http.StatusBadGateway)
	}
}
