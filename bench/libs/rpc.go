package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/rpc"
	"os"
	"time"

	"github.com/hashicorp/yamux"
	"github.com/miekg/dns"
	"golang.org/x/crypto/ssh"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	health1 "google.golang.org/grpc/health/grpc_health_v1"
)

var rpcLibraries = []library{
	{name: "grpc-go client", about: "one connection", server: "peers", tasks: 5000, ops: 4, open: openGRPC},
	{name: "grpc-go server", about: "server and client in the same process", tasks: 5000, ops: 2, open: openGRPCServer},
	{name: "net/rpc", about: "one connection", server: "peers", tasks: 5000, ops: 4, open: openRPC},
	{name: "yamux", about: "a stream for each task, 10 sessions", server: "peers", tasks: 5000, ops: 2, open: openYamux},
	{name: "x/crypto/ssh", about: "a command for each operation, 10 connections", server: "peers", tasks: 5000, ops: 1, open: openSSH},
	{name: "miekg/dns UDP", about: "a socket for each task", server: "peers", tasks: 500, ops: 20, open: func(e *env) *opened { return openDNS(e, "udp") }},
	{name: "miekg/dns TCP", about: "a connection for each task", server: "peers", tasks: 5000, ops: 2, open: func(e *env) *opened { return openDNS(e, "tcp") }},
}

func (e *env) grpc(addr string, stop func()) *opened {
	conn := must(grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) { return e.dialer(ctx, "tcp", addr) })))
	client := health1.NewHealthClient(conn)
	return shared(func(int) error {
		r, err := client.Check(context.Background(), &health1.HealthCheckRequest{}, grpc.WaitForReady(true))
		if err != nil {
			return err
		}
		return want(r.Status, health1.HealthCheckResponse_SERVING)
	}, func() {
		conn.Close()
		stop()
	})
}

func openGRPC(e *env) *opened { return e.grpc(e.Addr["grpc"], func() {}) }

func grpcServer() *grpc.Server {
	server := grpc.NewServer()
	health1.RegisterHealthServer(server, health.NewServer())
	return server
}

func openGRPCServer(e *env) *opened {
	server := grpcServer()
	return e.grpc(e.serve(server.Serve), server.Stop)
}

// Echo is the service of net/rpc.
type Echo struct{}

// Int answers n.
func (Echo) Int(n int, answer *int) error {
	*answer = n
	return nil
}

func openRPC(e *env) *opened {
	client := rpc.NewClient(must(e.dial("tcp", e.Addr["rpc"])))
	return shared(func(n int) error {
		var got int
		err := client.Call("Echo.Int", n, &got)
		return answers(n)(got, err)
	}, func() { client.Close() })
}

func yamuxConfig() *yamux.Config {
	cfg := yamux.DefaultConfig()
	cfg.LogOutput = io.Discard
	return cfg
}

func openYamux(e *env) *opened {
	var sessions [10]*yamux.Session
	for i := range sessions {
		sessions[i] = must(yamux.Client(must(e.dial("tcp", e.Addr["yamux"])), yamuxConfig()))
	}
	return &opened{
		session: func(task int) (session, error) {
			stream, err := sessions[task%len(sessions)].Open()
			if err != nil {
				return session{}, err
			}
			return session{
				do:    func(n int) error { return echo(stream, n) },
				close: func() { stream.Close() },
			}, nil
		},
		stop: func() {
			for _, s := range sessions {
				s.Close()
			}
		},
	}
}

func openSSH(e *env) *opened {
	var clients [10]*ssh.Client
	cfg := &ssh.ClientConfig{User: "libs", HostKeyCallback: ssh.InsecureIgnoreHostKey()}
	for i := range clients {
		conn, channels, requests, err := ssh.NewClientConn(must(e.dial("tcp", e.Addr["ssh"])), e.Addr["ssh"], cfg)
		check(err)
		clients[i] = ssh.NewClient(conn, channels, requests)
	}
	return shared(func(n int) error {
		s, err := clients[n%len(clients)].NewSession()
		if err != nil {
			return err
		}
		defer s.Close()
		got, err := s.Output(fmt.Sprint(n))
		return answers(fmt.Sprint(n))(string(got), err)
	}, func() {
		for _, c := range clients {
			c.Close()
		}
	})
}

func openDNS(e *env, network string) *opened {
	client := &dns.Client{Net: network, Timeout: *limit}
	if network == "udp" {
		client.Timeout = time.Second // a server that 500 ask at once loses datagrams
	}
	return ownConn(func() (*dns.Conn, error) {
		raw, err := e.dial(network, e.Addr["dns "+network])
		return &dns.Conn{Conn: raw}, err
	}, func(conn *dns.Conn, n int) error {
		question := new(dns.Msg)
		question.SetQuestion(fmt.Sprintf("n%d.example.", n), dns.TypeA)
		for began := time.Now(); ; {
			answer, _, err := client.ExchangeWithConn(question, conn)
			switch {
			case err == nil:
				return want(len(answer.Answer), 1)
			case !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) > *limit:
				return err
			}
		}
	}, func(conn *dns.Conn) { conn.Close() })
}
