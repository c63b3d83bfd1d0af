package main

import (
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestCostsOfThePolicies(t *testing.T) {
	needTwoCores(t)
	r := testRun(t, true)
	for _, s := range schedulers {
		for _, metric := range []string{"choose", "choose-alone", "yield"} {
			if s.policy == "fifo" && metric != "yield" {
				continue
			}
			t.Run(s.system+" "+metric, func(t *testing.T) {
				samples, err := withPolicy(s.system, s.policy, r.self).sample(t.Context(), point{metric: metric, x: 5}, 5*time.Millisecond)
				testenv.Must(t, err)
				if one := samples[0]; len(samples) != 1 || one.metric != metric || one.unit != "ns" || one.x != 5 || one.value <= 0 {
					t.Errorf("got %+v", samples)
				}
			})
		}
	}
}

func TestPolicyThatDoesNotExistIsAnError(t *testing.T) {
	needTwoCores(t)
	r := testRun(t, true)
	for _, metric := range []string{"choose", "yield"} {
		_, err := withPolicy("x", "lottery", r.self).sample(t.Context(), point{metric: metric, x: 5}, time.Millisecond)
		if err == nil || !strings.Contains(err.Error(), "lottery") {
			t.Errorf("%s: got %v", metric, err)
		}
	}
}
