package main

import "testing"

// TestRequestsIn reads what a client prints of a million requests and more, as of 25 s of net/http.
func TestRequestsIn(t *testing.T) {
	samples, err := parseSamples([]string{"rps req/s 1 66148.5", "requests 1 1 1.65371e+06"})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := requestsIn(samples); n != 1_653_710 || err != nil {
		t.Errorf("requestsIn = %d, %v, want 1653710", n, err)
	}
	if n, err := requestsIn(samples[:1]); err == nil {
		t.Errorf("requestsIn without a count = %d, want an error", n)
	}
}
