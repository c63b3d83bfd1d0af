// Command quic-go serves the files of a folder over HTTP/3, by quic-go's own server and net/http's handler of files.
package main

import (
	"crypto/tls"
	"flag"
	"net"
	"net/http"

	"github.com/quic-go/quic-go/http3"

	"github.com/capriccio-go/capriccio/bench/peers/ready"
)

func main() {
	root := flag.String("root", ".", "folder")
	pem := flag.String("tls", "", "file with a certificate and its key")
	flag.Parse()
	pair, err := tls.LoadX509KeyPair(*pem, *pem)
	if err != nil {
		ready.Fail(err)
	}
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		ready.Fail(err)
	}
	server := http3.Server{Handler: http.FileServer(http.Dir(*root)), TLSConfig: http3.ConfigureTLSConfig(&tls.Config{Certificates: []tls.Certificate{pair}})}
	ready.Listening(conn.LocalAddr())
	ready.Fail(server.Serve(conn))
}
