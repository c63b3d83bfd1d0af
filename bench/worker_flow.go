package main

import (
	"errors"
	"flag"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"
)

// runPhases is the client process of flow-adapt: requests come by a Poisson process whose rate
// goes up and down. It prints samples whose parameter is the time in seconds, 0 for all of it.
func runPhases(args []string, out io.Writer) error {
	var p phases
	flags := flag.NewFlagSet("phases", flag.ExitOnError)
	addr := flags.String("addr", "", "address of the server")
	path := flags.String("path", "/", "what is asked for")
	pid := flags.Int("pid", 0, "process of the server")
	flags.DurationVar(&p.idle, "idle", time.Second, "at rest")
	flags.DurationVar(&p.ramp, "ramp", time.Second, "up, and down")
	flags.DurationVar(&p.peak, "peak", time.Second, "at the peak")
	flags.Float64Var(&p.low, "low", 1, "requests a second at rest")
	flags.Float64Var(&p.high, "high", 1, "requests a second at the peak")
	flags.IntVar(&p.times, "times", 1, "peaks")
	flags.Parse(args)
	const bin = 250 * time.Millisecond
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 10_000}}
	var mu sync.Mutex
	var latencies []time.Duration
	bytes := make([]int64, p.length()/bin+1)
	var failed []error
	var all sync.WaitGroup
	used := cpuSince(*pid)
	random := rand.New(rand.NewPCG(1, 1))
	began := time.Now()
	for due := time.Duration(0); due < p.length(); due += time.Duration(random.ExpFloat64() / p.rate(due) * float64(time.Second)) {
		time.Sleep(due - time.Since(began))
		all.Go(func() {
			resp, err := client.Get("http://" + *addr + *path)
			var n int64
			if err == nil {
				n, err = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
			took := time.Since(began) - due
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = append(failed, err)
				return
			}
			latencies = append(latencies, took)
			bytes[min(int((due+took)/bin), len(bytes)-1)] += n
		})
	}
	all.Wait()
	cpu, err := used()
	if err = errors.Join(err, errors.Join(failed...)); err != nil {
		return err
	}
	slices.Sort(latencies)
	emit := emitAt(out, 0)
	emit("p50", "ms", latencies[len(latencies)/2].Seconds()*1e3)
	emit("p99", "ms", latencies[len(latencies)*99/100].Seconds()*1e3)
	emit("longest", "ms", latencies[len(latencies)-1].Seconds()*1e3)
	emit("cpu-per-request", "µs", cpu.Seconds()*1e6/float64(len(latencies)))
	for i, n := range bytes[:len(bytes)-1] {
		emitAt(out, float64(i)*bin.Seconds())("bandwidth", "Mbit/s", float64(n)*8/1e6/bin.Seconds())
	}
	return nil
}
