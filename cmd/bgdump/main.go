// Command bgdump shows and exports the blocking graph of a running program. Run it with
// -help.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/capriccio-go/capriccio/cmd/bgdump/web"
	"github.com/capriccio-go/capriccio/internal/flaghelp"
	"github.com/capriccio-go/capriccio/internal/kube"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// After the first signal the next one ends the process at once.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], &surroundings{
		stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr,
		clock: systemClock{}, kernel: systemKernel(), openOTLP: openOTLP,
		account: kube.Account{Host: os.Getenv("KUBERNETES_SERVICE_HOST"), Port: os.Getenv("KUBERNETES_SERVICE_PORT"), Dir: kube.AccountDir},
	}))
}

// surroundings are what the command sees of the world; tests have a small one.
type surroundings struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	clock          clock
	resolver       *net.Resolver // nil: the system's
	kernel         *kernel
	account        kube.Account // of the pod that this is
	openOTLP       func(url string) (receiver, error)
}

// say tells the user of the command something beside its result.
func (sur *surroundings) say(format string, args ...any) {
	fmt.Fprintf(sur.stderr, "bgdump: "+format+"\n", args...)
}

// Exit codes.
const (
	exitOK     = 0
	exitFound  = 1 // by -lint
	exitFailed = 2
)

// run does what the command line says and returns the exit code.
func run(ctx context.Context, args []string, sur *surroundings) int {
	out := &flaghelp.Output{Writer: sur.stdout}
	set, err := parse(args, out)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return out.Code(exitFailed, sur.stderr, "bgdump")
	case err != nil:
		fmt.Fprintf(sur.stderr, "bgdump: %v\nTry bgdump -help.\n", err)
		return exitFailed
	case set.version:
		fmt.Fprintln(out, flaghelp.Version("bgdump"))
		return out.Code(exitFailed, sur.stderr, "bgdump")
	}
	code, err := execute(ctx, set, sur)
	if err != nil {
		fmt.Fprintln(sur.stderr, "bgdump:", explain(err))
		return exitFailed
	}
	return code
}

// explain is the text of an error without the names of packages in it.
func explain(err error) string {
	if errors.Is(err, context.Canceled) {
		return "interrupted"
	}
	text := strings.TrimPrefix(err.Error(), "bgraph: ")
	return strings.NewReplacer(": bgraph: ", ": ", ": gotrace: ", ": ").Replace(text)
}

// isEnded reports whether the source will never answer again.
func isEnded(err error) bool {
	var ended endedError
	return errors.As(err, &ended)
}

func execute(ctx context.Context, set *settings, sur *surroundings) (int, error) {
	if set.test != nil {
		tmp, err := os.MkdirTemp("", "bgdump")
		if err != nil {
			return exitFailed, err
		}
		defer os.RemoveAll(tmp)
		file, err := set.test.trace(ctx, tmp, sur.stderr)
		if err != nil {
			return exitFailed, err
		}
		set.sources = []string{file}
	}
	if set.isGate() {
		return gate(ctx, set, sur)
	}
	switch {
	case set.mode == modeServe:
		return exitOK, serveAgent(ctx, set, sur)
	case set.mode == modeRecord && set.isFleet():
		return exitOK, recordFleet(ctx, set, sur)
	case set.mode == modeHTTP && set.isFleet():
		return exitOK, serveLive(ctx, set, sur)
	case set.mode == modeHTTP && isFleetFolder(set.sources[0]):
		f := &recordedFleet{dir: set.sources[0], set: set, sur: sur}
		return exitOK, servePage(set, sur, f.Name(), func(ln net.Listener, o web.Options) error { return web.ServeFleet(ctx, ln, f, o) })
	case set.merge, len(set.sources) == 1 && set.mode != modeRecord && isFleetFolder(set.sources[0]):
		return fleet(ctx, set, sur)
	}
	sources := make([]source, len(set.sources))
	for i, arg := range set.sources {
		var err error
		if sources[i], err = openSource(ctx, arg, sur, set); err != nil {
			return exitFailed, err
		}
	}
	src := sources[0]
	if err := suits(src, set); err != nil {
		return exitFailed, err
	}
	switch set.mode {
	case modeRecord:
		r := &recorder{src: src, dir: set.record, interval: set.interval, keep: set.keep, sur: sur}
		return exitOK, r.run(ctx)
	case modeHTTP:
		return exitOK, serve(ctx, set, src, sur)
	}
	return runOnce(ctx, set, sources, sur)
}

// suits reports whether a source can do what is asked of it.
func suits(src source, set *settings) error {
	_, isFolder := src.(*folderSource)
	switch {
	case set.cpu && set.cpuGiven && !isURL(src):
		return fmt.Errorf("-cpu takes a profile beside a trace, and so needs the URL of a program that serves net/http/pprof, or -probe and its process")
	case live(src) || isFolder && set.mode != modeRecord && set.mode != modeServe:
		return nil
	case set.seconds != 0:
		return fmt.Errorf("-seconds needs a running program or a folder of recordings; %s does not change", src.Name())
	case set.mode == modeRecord, set.mode == modeServe:
		return fmt.Errorf("-%s needs a running program: the id of its process or its URL", set.mode)
	}
	return nil
}

// serve serves the page of a source until ctx ends.
func serve(ctx context.Context, set *settings, src source, sur *surroundings) error {
	return servePage(set, sur, src.Name(), func(ln net.Listener, o web.Options) error {
		o.Lazy = isURL(src)
		return web.Serve(ctx, ln, src, o)
	})
}

// servePage listens at the address that -http names, says so, and lets fn serve what it shows there.
func servePage(set *settings, sur *surroundings, what string, fn func(net.Listener, web.Options) error) error {
	ln, err := listen("http", set.http)
	if err != nil {
		return err
	}
	fmt.Fprintf(sur.stdout, "the graph of %s is on http://%s\nstop with Ctrl-C\n", what, ln.Addr())
	return fn(ln, web.Options{Interval: set.interval, Timeout: mostPlaces*set.timeout + time.Second, Focus: set.focus, Ignore: set.ignore})
}

// isURL reports whether an answer may be a trace, which costs the program something.
func isURL(src source) bool {
	_, ok := src.(*urlSource)
	return ok
}
