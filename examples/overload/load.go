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

// client keeps its connections open between requests; one that gives up closes its own.
func newClient() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1 << 14}}
}

// ask reports whether the answer is a 200.
func ask(c *http.Client, url string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	response, err := c.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return err == nil && response.StatusCode == http.StatusOK
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
				if ask(client, url) {
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

// run returns how many requests of each bucket of time were answered in time.
func (l *load) run() []int64 {
	client := newClient()
	defer client.CloseIdleConnections()
	inTime := make([]atomic.Int64, len(l.rates)*int(l.phase/bucket))
	var all sync.WaitGroup
	began := time.Now()
	for due := time.Duration(0); ; {
		now := int(due / l.phase)
		if now >= len(l.rates) {
			break
		}
		time.Sleep(time.Until(began.Add(due)))
		at := due
		all.Go(func() {
			if ask(client, l.url) && time.Since(began) <= at+useful {
				inTime[at/bucket].Add(1)
			}
		})
		due += time.Duration(float64(time.Second) / l.rates[now])
	}
	all.Wait()
	counts := make([]int64, len(inTime))
	for i := range inTime {
		counts[i] = inTime[i].Load()
	}
	return counts
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
