package engine

import (
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio/internal/coro"
)

// A nativePlace is a call path that ends in a native wait.
type nativePlace struct {
	print  uint64
	pcs    []uintptr    // innermost first
	name   string       // of the program's function that waits
	at     string       // the innermost function that is not the standard library's, and its position, as userFrame has it
	told   *atomic.Bool // one for all with the same at
	linked bool         // it is on a stack chunk
	score  atomic.Int32 // how many more waits were long than short, of the last few; see ended
}

// Of a slow place's waits more are long than short.
const (
	longWait = 200 * time.Microsecond // some ten times what a detachment costs
	maxScore = 16
)

// ended notes how long the task was away that waited at p.
func (p *nativePlace) ended(away time.Duration) {
	if score := p.score.Load(); away >= longWait {
		p.score.Store(min(score+1, maxScore))
	} else {
		p.score.Store(max(score-1, -maxScore))
	}
}

// nativePlaces remembers what stacks have turned out to be; nil: nothing to detach. Private to
// the watchdog.
type nativePlaces struct {
	known map[uint64]*nativePlace
	told  map[string]*atomic.Bool // by nativePlace.at
	pcs   [maxNativeFrames]uintptr
	again [maxNativeFrames]uintptr
}

const (
	maxNativeFrames = 256
	maxNativePlaces = 4096 // with more, all are forgotten
)

// look returns the place where g waits outside of the runtime, nil if it does not.
func (p *nativePlaces) look(g uintptr) *nativePlace {
	n := coro.Stack(g, p.pcs[:], p.again[:])
	if n == 0 {
		return nil
	}
	print := uint64(0xcbf29ce484222325)
	for _, pc := range p.pcs[:n] {
		print = (print + uint64(pc)) * 0x9e3779b97f4a7c15
	}
	print ^= print >> 32
	if at, ok := p.known[print]; ok {
		return at
	}
	if p.known == nil || len(p.known) >= maxNativePlaces {
		p.known, p.told = make(map[uint64]*nativePlace), make(map[string]*atomic.Bool)
	}
	at := judge(p.pcs[:n])
	if at != nil {
		at.print = print
		if at.told = p.told[at.at]; at.told == nil {
			at.told = new(atomic.Bool)
			p.told[at.at] = at.told
		}
	}
	p.known[print] = at
	return at
}

const module = "github.com/capriccio-go/capriccio/"

// ours are the packages of the runtime, whose frames must not be left in the middle.
var ours = []string{"task.", "netpoll.", "aio.", "stackchunk.", "bgraph", "ressched", "flow", "knot", "internal/"}

// judge reports whether a stack, innermost frame first, is that of a native wait outside of the
// runtime.
func judge(pcs []uintptr) *nativePlace {
	frames := runtime.CallersFrames(pcs)
	waits := false // a function that waits, and not one that allocates, say, was called
	at := &nativePlace{}
	name, below := "", "" // of a frame, and of the one that it has called
	met := false          // a function of these packages has been met
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		name, below = f.Function, name
		switch {
		case name == "":
			return nil
		case !waits && strings.HasPrefix(name, "runtime."):
			if nativeWaits[name] {
				waits = true
			} else if !partOfWait(name) {
				return nil
			}
		case !waits:
			if !nativeWaits[name] && !inSystem(name) {
				return nil
			}
			waits = true
		}
		if rest, ok := strings.CutPrefix(name, module); ok && isOurs(rest) {
			how := callsOut(rest)
			if how == callsBack {
				return nil
			}
			if !met && at.name == "" && (strings.HasPrefix(rest, "internal/") || strings.HasPrefix(rest, "stackchunk.")) {
				at.name = below // all that the program has it call is a method of package sync, say
			}
			if met = true; at.name == "" {
				return nil
			}
			if how == callsAndPasses {
				continue
			}
			at.linked = how == callsLinked
			for partOfWait(runtime.FuncForPC(pcs[0] - 1).Name()) {
				pcs = pcs[1:]
			}
			at.pcs = append([]uintptr(nil), pcs...)
			if at.at == "" {
				at.at = at.name
			}
			return at
		}
		if waits && at.name == "" && !systems(name) {
			at.name = name
		}
		if position := fmt.Sprint(f.File, ":", f.Line); waits && at.at == "" && ofProgram(name, position) {
			at.at = name + " " + position
		}
	}
	return nil
}

func isOurs(name string) bool {
	return slices.ContainsFunc(ours, func(p string) bool { return strings.HasPrefix(name, p) && !strings.Contains(name, "_test.") })
}

// What a function of these packages does that is on a stack. Only one that does nothing in the middle of which its loop
// must not go is other than callsBack.
type calling uint8

const (
	callsBack      calling = iota // the loop must be there when it goes on
	callsForth                    // it calls the program's code, and comes back to the loop when that returns
	callsAndPasses                // the same, and goes on without the loop: what has called it must not need the loop either
	callsLinked                   // as callsAndPasses, at the bottom of a stack chunk: what has called it is on another stack
)

// callsOutNames are the functions of these packages that call the program's code, by name without the module; a
// generic function has a name that ends with "[". CallsForth adds function literals.
var callsOutNames = map[string]calling{
	"internal/engine.(*worker).runTasks": callsForth, "internal/engine.Outside[": callsForth, "internal/engine.call[": callsForth,
	"internal/engine.callPlain": callsForth, "internal/engine.callLock": callsForth, "internal/engine.(*PanicError).tell": callsForth,
	"netpoll.callDial": callsForth, "flow.run[": callsForth,
	"knot.exchangeOf.run": callsForth, "knot.accept": callsForth, "knot.shake": callsForth,
	"knot.callBaseContext": callsForth, "knot.callConnState": callsForth, "knot.callConnContext": callsForth,

	"stackchunk.Call": callsAndPasses, "stackchunk.(*Site).Call": callsAndPasses, "internal/chunk.(*Chunk).GoOn": callsAndPasses,
	"internal/engine.Copy": callsAndPasses, "netpoll.(*Conn).ReadFrom": callsAndPasses, "netpoll.(*Conn).WriteTo": callsAndPasses,
	"aio.(*File).ReadFrom": callsAndPasses, "aio.(*File).WriteTo": callsAndPasses, "knot.(*exchange).ReadFrom": callsAndPasses,

	"internal/chunk.(*Chunk).serve": callsLinked,
}

// CallsForth declares that fn, a function literal, calls the program's code and is on its loop when it goes on after that, as
// engine.Outside is. The compiler gives a literal a name that no list can rely on. Call it when a package is initialised.
func CallsForth(fn func()) struct{} {
	name := runtime.FuncForPC(reflect.ValueOf(fn).Pointer()).Name()
	callsOutNames[strings.TrimPrefix(name, module)] = callsForth
	return struct{}{}
}

func callsOut(name string) calling {
	if generic := strings.IndexByte(name, '['); generic >= 0 {
		name = name[:generic+1]
	}
	return callsOutNames[name]
}

// passes reports whether g, which has linked a stack chunk, can do without its loop until the chunk is given back. linked is whether
// it is on a chunk itself.
func (p *nativePlaces) passes(g uintptr) (linked, ok bool) {
	frames := runtime.CallersFrames(p.pcs[:coro.Stack(g, p.pcs[:], p.again[:])])
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		rest, found := strings.CutPrefix(f.Function, module)
		if !found || !isOurs(rest) || strings.HasPrefix(rest, "internal/coro.") { // the switch to the chunk
			continue
		}
		switch callsOut(rest) {
		case callsForth:
			return false, true
		case callsLinked:
			return true, true
		case callsBack:
			return false, false
		}
	}
	return false, false
}

// mayLeave reports whether the task that runs on w can do without its loop, as far as the stacks are concerned from which
// its chunks are linked. linked is whether that depends on them.
func (p *nativePlaces) mayLeave(w *worker, linked bool) bool {
	for linked {
		m := w.asChunk()
		if m == nil {
			return false
		}
		w = m.below
		var ok bool
		if linked, ok = p.passes(w.g); !ok {
			return false
		}
	}
	return true
}

// nativeWaits are the functions by which a program waits for other goroutines, or for the time.
var nativeWaits = map[string]bool{
	"runtime.chanrecv1": true, "runtime.chanrecv2": true, "runtime.chansend1": true, "runtime.selectgo": true,
	"runtime.block": true, "runtime.cgocall": true,
	"time.Sleep": true, "internal/poll.runtime_pollWait": true,
	"sync.runtime_Semacquire": true, "sync.runtime_SemacquireRWMutex": true,
	"sync.runtime_SemacquireRWMutexR": true, "sync.runtime_SemacquireWaitGroup": true, "sync.runtime_notifyListWait": true,
	"internal/sync.runtime_SemacquireMutex": true, "internal/poll.runtime_Semacquire": true,
}

// partsOfWait are the functions of the Go runtime that nativeWaits call.
var partsOfWait = []string{
	"runtime.gopark", "runtime.goparkunlock", "runtime.chanrecv", "runtime.chansend", "runtime.semacquire1",
	"runtime.netpollblock", "runtime.timeSleep", "runtime.mcall", "runtime.asmcgocall", "runtime.entersyscall", "runtime.reentersyscall",
}

func partOfWait(name string) bool { return slices.Contains(partsOfWait, name) }

// inSystem reports whether a goroutine that waits below name is in a system call.
func inSystem(name string) bool {
	return strings.HasPrefix(name, "syscall.") || strings.HasPrefix(name, "internal/runtime/syscall.") || strings.HasPrefix(name, "golang.org/x/sys/unix.")
}

// systems are packages that do not say much about where a program waits.
func systems(name string) bool {
	return slices.ContainsFunc([]string{"runtime.", "sync.", "internal/", "time.", "syscall.", "golang.org/x/sys/unix.", "os."}, func(p string) bool { return strings.HasPrefix(name, p) })
}
