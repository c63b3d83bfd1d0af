package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	patience = time.Second            // after which a client gives up
	useful   = 100 * time.Millisecond // an answer that takes longer is not counted
	bucket   = 250 * time.Millisecond // what the picture shows a point for
)

// newClient returns a client that keeps connections open between requests. A request that is given up closes its connection.
func newClient() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1 << 14}}
}

// ask returns the status of the answer, or 0 if there is none in time.
func ask(c *http.Client, url string) int {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0
	}
	response, err := c.Do(request)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	if _, err = io.Copy(io.Discard, response.Body); err != nil {
		return 0
	}
	return response.StatusCode
}

// measureCapacity returns how many requests a second are answered when 16 clients send one after the other.
func measureCapacity(url string, d time.Duration) float64 {
	var answered atomic.Int64
	var all sync.WaitGroup
	client := newClient()
	defer client.CloseIdleConnections()
	end := time.Now().Add(d)
	for range 16 {
		all.Go(func() {
			for time.Now().Before(end) {
				if ask(client, url) == http.StatusOK {
					answered.Add(1)
				}
			}
		})
	}
	all.Wait()
	return float64(answered.Load()) / d.Seconds()
}

// A load sends requests at the given rates, whether or not earlier ones have been answered: clients on a network do not
// wait for each other.
type load struct {
	url   string
	phase time.Duration // for each rate
	rates []float64     // requests a second
}

// checkPhase refuses a phase that is not made of whole buckets.
func checkPhase(phase time.Duration) error {
	if phase <= 0 || phase%bucket != 0 {
		return fmt.Errorf("-phase %v; want a multiple of %v, such as 4s", phase, bucket)
	}
	return nil
}

// outcomes are how many requests of each bucket of time were answered in time, and how many got 503.
type outcomes struct {
	inTime, refused []int64
	sentLate        time.Duration // how late a request was sent, at most; it counts as the server's time
}

// run sends the requests, and returns when the last one has been answered or given up.
func (l *load) run() outcomes {
	client := newClient()
	defer client.CloseIdleConnections()
	buckets := len(l.rates) * int(l.phase/bucket)
	inTime, refused := make([]atomic.Int64, buckets), make([]atomic.Int64, buckets)
	var sentLate time.Duration
	var all sync.WaitGroup
	began := time.Now()
	for due := time.Duration(0); ; {
		now := int(due / l.phase)
		if now >= len(l.rates) {
			break
		}
		time.Sleep(time.Until(began.Add(due)))
		sentLate = max(sentLate, time.Since(began)-due)
		at := due
		all.Go(func() {
			switch ask(client, l.url) {
			case http.StatusOK:
				if time.Since(began) <= at+useful {
					inTime[at/bucket].Add(1)
				}
			case http.StatusServiceUnavailable:
				refused[at/bucket].Add(1)
			}
		})
		due += time.Duration(float64(time.Second) / l.rates[now])
	}
	all.Wait()
	return outcomes{loaded(inTime), loaded(refused), sentLate}
}

func loaded(counts []atomic.Int64) []int64 {
	values := make([]int64, len(counts))
	for i := range counts {
		values[i] = counts[i].Load()
	}
	return values
}

// perSecond writes a line for each second of a load of that rate.
func (o *outcomes) perSecond(rate float64) string {
	const each = int(time.Second / bucket)
	var text strings.Builder
	for i := 0; i+each <= len(o.inTime); i += each {
		var inTime, refused int64
		for j := range each {
			inTime += o.inTime[i+j]
			refused += o.refused[i+j]
		}
		fmt.Fprintf(&text, "second %d: %d answered within 100 ms, %d refused with 503, %.0f later or not at all\n",
			i/each+1, inTime, refused, max(0, rate-float64(inTime+refused)))
	}
	if o.sentLate > useful {
		fmt.Fprintf(&text, "requests were sent up to %v late: this machine is too busy for that rate, and the counts say little: ask for a lower -rate, or from another machine\n", o.sentLate.Round(time.Millisecond))
	}
	return text.String()
}

// perPhase is the mean rate of each of the three phases.
func perPhase(counts []int64) string {
	var texts []string
	third := len(counts) / 3
	for i := range 3 {
		var sum int64
		for _, n := range counts[i*third : (i+1)*third] {
			sum += n
		}
		texts = append(texts, fmt.Sprintf("%.0f", float64(sum)/float64(third)/bucket.Seconds()))
	}
	return strings.Join(texts, ", ")
}
