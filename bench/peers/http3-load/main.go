// Command http3-load asks a server for a file over HTTP/3, as often as it can, and prints what a request has cost the server.
package main

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go/http3"

	"github.com/capriccio-go/capriccio/bench/internal/proc"
	"github.com/capriccio-go/capriccio/bench/peers/ready"
)

func main() {
	url := flag.String("url", "", "of the file")
	size := flag.Int64("size", 0, "bytes of the file")
	pid := flag.Int("pid", 0, "process of the server")
	conns := flag.Int("conns", 4, "connections")
	streams := flag.Int("streams", 4, "requests under way on each")
	warm := flag.Duration("warm", time.Second, "time before it is measured")
	length := flag.Duration("for", time.Second, "time that is measured")
	flag.Parse()
	ctx, cancel := context.WithCancel(context.Background())
	var done atomic.Int64
	var clients sync.WaitGroup
	for range *conns {
		client := &http.Client{Transport: &http3.Transport{DisableCompression: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true, ServerName: "localhost"}}}
		for range *streams {
			clients.Go(func() {
				for ctx.Err() == nil {
					if err := ask(ctx, client, *url, *size); err != nil && ctx.Err() == nil {
						ready.Fail(err)
					}
					done.Add(1)
				}
			})
		}
	}
	time.Sleep(*warm)
	cpu, err := proc.CPUTime(*pid)
	began, before := time.Now(), done.Load()
	time.Sleep(*length)
	later, laterErr := proc.CPUTime(*pid)
	took, requests := time.Since(began), done.Load()-before
	cancel()
	clients.Wait()
	switch {
	case err != nil:
		ready.Fail(err)
	case laterErr != nil:
		ready.Fail(laterErr)
	case requests == 0:
		ready.Fail(fmt.Errorf("no request was answered within %v", *length))
	}
	fmt.Println("rps req/s 0", float64(requests)/took.Seconds())
	fmt.Println("cpu-per-request µs 0", float64((later-cpu).Nanoseconds())/1e3/float64(requests))
	fmt.Println("server-busy % 0", 100*float64(later-cpu)/float64(took))
}

func ask(ctx context.Context, client *http.Client, url string, size int64) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	if err == nil && (resp.StatusCode != http.StatusOK || n != size || resp.ProtoMajor != 3) {
		err = fmt.Errorf("%s: %s with %d bytes over %s, want %d over HTTP/3", url, resp.Status, n, resp.Proto, size)
	}
	return err
}
