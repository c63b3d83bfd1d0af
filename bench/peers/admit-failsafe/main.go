// Command admit-failsafe is net/http with failsafe-go's adaptive limiter, with default
// settings, before the chores of the experiment admission.
package main

import (
	"context"
	"net/http"
	"os"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/chores"
	"github.com/capriccio-go/capriccio/bench/peers/ready"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/failsafe-go/failsafe-go/priority"
)

func main() {
	ready.Fail(chores.RunHTTP(os.Args[1:], os.Stdout, chores.Limits{Handler: limited}))
}

// limited puts the limiter before a handler. If prioritized, it is the one that asks for priorities,
// made out of the Priority header of RFC 9218 as the driver sends it.
func limited(next http.Handler, prioritized bool) http.Handler {
	limiter := adaptivelimiter.NewBuilder[*http.Response]()
	if !prioritized {
		return failsafehttp.NewHandler(next, limiter.Build())
	}
	prioritizer := adaptivelimiter.NewPrioritizer()
	prioritizer.ScheduleCalibrations(context.Background(), 100*time.Millisecond)
	executor := failsafe.With(limiter.BuildPrioritized(prioritizer))
	// The handler of failsafehttp does not hand the request's context to its policies, so
	// each request gets an executor that does.
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := priority.Medium
		switch r.Header.Get("Priority") {
		case "u=1":
			p = priority.VeryHigh
		case "u=6":
			p = priority.VeryLow
		}
		ctx := p.AddTo(r.Context())
		failsafehttp.NewHandlerWithExecutor(next, executor.WithContext(ctx)).ServeHTTP(w, r)
	})
}
