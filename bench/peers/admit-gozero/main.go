// Command admit-gozero is net/http with go-zero's load shedder, with default settings,
// before the chores of the experiment admission, as go-zero's own server has it.
package main

import (
	"net/http"
	"os"

	"github.com/capriccio-go/capriccio/bench/internal/chores"
	"github.com/capriccio-go/capriccio/bench/peers/ready"
	"github.com/zeromicro/go-zero/core/load"
	"github.com/zeromicro/go-zero/core/logx"
)

func main() {
	logx.Disable() // it writes to the standard output, where the driver listens
	ready.Fail(chores.RunHTTP(os.Args[1:], os.Stdout, chores.Limits{Handler: shed}))
}

func shed(next http.Handler, _ bool) http.Handler {
	shedder := load.NewAdaptiveShedder()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		promise, err := shedder.Allow()
		if err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		defer promise.Pass()
		next.ServeHTTP(w, r)
	})
}
