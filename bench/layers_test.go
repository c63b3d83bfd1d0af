package main

import (
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// subjects are the packages of the main module that experiments measure.
const subjects = ". aio bgraph internal/bgraph internal/gotrace internal/graphview/draw internal/graphview/lint internal/graphview/tables internal/coro internal/engine internal/flaghelp " +
	"internal/httpcases internal/orca internal/poller internal/recorder internal/sched internal/uring knot knot/certs knot/proxy netpoll ressched stackchunk task"

// layers says what each folder may import of this module and from outside of the standard library.
var layers = map[string]string{
	".":               measured() + "internal/chores internal/load internal/models internal/people internal/proc internal/report github.com/google/pprof/profile github.com/quic-go/quic-go github.com/quic-go/quic-go/http3 golang.org/x/exp/trace golang.org/x/sys/unix",
	"internal/chores": "",
	"internal/load":   "internal/proc golang.org/x/sys/unix",
	"internal/models": "golang.org/x/sys/unix",
	"internal/people": "internal/load",
	"internal/proc":   "golang.org/x/sys/unix",
	"internal/report": "",
	"planted":         "",
}

func measured() string {
	var paths strings.Builder
	for dir := range strings.FieldsSeq(subjects) {
		paths.WriteString(strings.TrimSuffix(mainModule+"/"+dir, "/.") + " ")
	}
	return paths.String()
}

func TestImportsFollowTheLayers(t *testing.T) {
	testenv.CheckImports(t, mainModule+"/bench", layers, mainModule+"/internal/testenv")
}
