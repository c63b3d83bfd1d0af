package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/rpc"
	"os"
	"time"

	coder "github.com/coder/websocket"
	"github.com/hashicorp/yamux"
	"github.com/miekg/dns"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"golang.org/x/crypto/ssh"
)

// peers is the process of the servers that are written in Go: on goroutines, on package net. It
// prints their addresses and runs until it is killed.
func peers() {
	addr := map[string]string{}
	listen := func(name string, serve func(ln net.Listener)) {
		ln := must(net.Listen("tcp", "127.0.0.1:0"))
		addr[name] = ln.Addr().String()
		go serve(ln)
	}
	key, cert := certificate()
	secure := &tls.Config{Certificates: []tls.Certificate{cert}}

	mux := http.NewServeMux()
	mux.HandleFunc("/", page)
	mux.HandleFunc("/ws", echoMessages)
	listen("http", func(ln net.Listener) { http.Serve(ln, mux) })
	listen("https", func(ln net.Listener) {
		(&http.Server{Handler: mux, TLSConfig: secure}).ServeTLS(ln, "", "")
	})
	var plain http.Protocols
	plain.SetUnencryptedHTTP2(true)
	listen("h2c", func(ln net.Listener) { (&http.Server{Handler: mux, Protocols: &plain}).Serve(ln) })
	listen("grpc", func(ln net.Listener) { grpcServer().Serve(ln) })
	listen("echo", func(ln net.Listener) { each(ln, func(c net.Conn) { io.Copy(c, c) }) })
	listen("tls", func(ln net.Listener) { each(tls.NewListener(ln, secure), func(c net.Conn) { io.Copy(c, c) }) })
	listen("rpc", func(ln net.Listener) {
		s := rpc.NewServer()
		check(s.Register(Echo{}))
		s.Accept(ln)
	})
	listen("yamux", func(ln net.Listener) {
		each(ln, func(c net.Conn) {
			s := must(yamux.Server(c, yamuxConfig()))
			each(s, func(c net.Conn) { io.Copy(c, c) })
		})
	})
	sshConfig := &ssh.ServerConfig{NoClientAuth: true}
	sshConfig.AddHostKey(must(ssh.NewSignerFromKey(key)))
	listen("ssh", func(ln net.Listener) { each(ln, func(c net.Conn) { serveSSH(c, sshConfig) }) })

	dns.HandleFunc(".", answerName)
	listen("dns tcp", func(ln net.Listener) {
		(&dns.Server{Listener: ln, MaxTCPQueries: -1, ReadTimeout: time.Hour, IdleTimeout: func() time.Duration { return time.Hour }}).ActivateAndServe()
	})
	packets := must(net.ListenPacket("udp", "127.0.0.1:0"))
	addr["dns udp"] = packets.LocalAddr().String()
	go (&dns.Server{PacketConn: packets}).ActivateAndServe()
	addr["nats"] = serveNATS()

	check(json.NewEncoder(os.Stdout).Encode(addr))
	select {}
}

// must and check end a worker, or the peers, by an error that leaves nothing to do.
func must[T any](v T, err error) T {
	check(err)
	return v
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// each serves every connection of ln on a goroutine.
func each(ln net.Listener, serve func(net.Conn)) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			serve(c)
		}()
	}
}

func certificate() (*ecdsa.PrivateKey, tls.Certificate) {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der := must(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))
	return key, tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func echoMessages(w http.ResponseWriter, r *http.Request) {
	c, err := coder.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer c.CloseNow()
	for {
		kind, data, err := c.Read(r.Context())
		if err != nil || c.Write(r.Context(), kind, data) != nil {
			return
		}
	}
}

// serveSSH answers each command with itself.
func serveSSH(c net.Conn, cfg *ssh.ServerConfig) {
	_, channels, requests, err := ssh.NewServerConn(c, cfg)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for one := range channels {
		channel, requests, err := one.Accept()
		if err != nil {
			return
		}
		go func() {
			defer channel.Close()
			for r := range requests {
				var command struct{ Line string }
				if r.Type != "exec" || ssh.Unmarshal(r.Payload, &command) != nil {
					r.Reply(false, nil)
					continue
				}
				r.Reply(true, nil)
				fmt.Fprint(channel, command.Line)
				channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{}))
				return
			}
		}()
	}
}

func answerName(w dns.ResponseWriter, question *dns.Msg) {
	answer := new(dns.Msg)
	answer.SetReply(question)
	answer.Answer = []dns.RR{&dns.A{
		Hdr: dns.RR_Header{Name: question.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60},
		A:   net.IPv4(127, 0, 0, 1),
	}}
	w.WriteMsg(answer)
}

func serveNATS() string {
	s := must(server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true}))
	s.Start()
	if !s.ReadyForConnections(time.Minute) {
		panic("nats-server does not get ready")
	}
	conn := must(nats.Connect(s.ClientURL()))
	must(conn.Subscribe("echo", func(m *nats.Msg) { m.Respond(m.Data) }))
	return s.Addr().String()
}
