package gotrace

import (
	"cmp"
	"hash/fnv"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/exp/trace"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/funcname"
	"github.com/capriccio-go/capriccio/internal/graphlimits"
)

// maxFrames is how many frames of a stack are kept. The trace has at most 128.
const maxFrames = 64

// framesOf returns a stack, innermost first, fit to be shown.
func framesOf(stack trace.Stack) []bgraph.Frame {
	var out []bgraph.Frame
	for f := range stack.Frames() {
		if len(out) == maxFrames {
			out = out[:maxFrames-1] // the outermost one tells where it began
		}
		out = append(out, bgraph.Frame{Function: clean(f.Func), File: clean(f.File), Line: int(min(f.Line, 1<<31-1))})
	}
	return out
}

// trim leaves out how the Go runtime waits, at the inner end, and where it calls, at the
// outer one; all stays if there is nothing else.
func trim(frames []bgraph.Frame) []bgraph.Frame {
	rest := frames
	for len(rest) > 0 && (ofRuntime(rest[0].Function) || belowWaits(rest[0].Function)) {
		rest = rest[1:]
	}
	for len(rest) > 1 && strings.HasPrefix(rest[len(rest)-1].Function, "runtime.") {
		rest = rest[:len(rest)-1]
	}
	switch {
	case len(rest) > 0:
		return rest
	case len(frames) > 0 && isPreemption(frames[0].Function):
		return []bgraph.Frame{{Function: "a function without a frame"}}
	}
	return frames
}

// isPreemption reports whether a function is one of those in which the Go runtime preempts a goroutine. A stack that has no
// others is that of a goroutine in its first function, if that has no frame: the trace does not name it.
func isPreemption(function string) bool { return strings.HasPrefix(function, "runtime.asyncPreempt") }

// belowWaits reports whether the stack of a goroutine that waits has the function when the
// runtime looks at it from outside, but not when the goroutine says itself that it blocks.
func belowWaits(function string) bool {
	return slices.ContainsFunc([]string{"internal/poll.runtime_", "internal/poll.(*pollDesc).", "sync.runtime_", "internal/sync."}, func(prefix string) bool { return strings.HasPrefix(function, prefix) })
}

func ofRuntime(function string) bool {
	return strings.HasPrefix(function, "runtime.") || strings.HasPrefix(function, "internal/runtime/")
}

// waitFunctions tell more about a wait than the reason that the trace gives.
var waitFunctions = map[string]string{
	"internal/poll.(*FD).Accept":        "accept",
	"internal/poll.(*FD).Read":          "read",
	"internal/poll.(*FD).ReadFrom":      "read",
	"internal/poll.(*FD).RawRead":       "read",
	"internal/poll.(*FD).RawWrite":      "write",
	"internal/poll.(*FD).ReadMsg":       "read",
	"internal/poll.(*FD).Write":         "write",
	"internal/poll.(*FD).WriteTo":       "write",
	"internal/poll.(*FD).WriteMsg":      "write",
	"internal/poll.(*FD).Writev":        "write",
	"internal/poll.(*FD).ReadFromInet4": "read",
	"internal/poll.(*FD).ReadFromInet6": "read",
	"internal/poll.(*FD).ReadMsgInet4":  "read",
	"internal/poll.(*FD).ReadMsgInet6":  "read",
	"internal/poll.(*FD).WriteToInet4":  "write",
	"internal/poll.(*FD).WriteToInet6":  "write",
	"internal/poll.(*FD).WriteMsgInet4": "write",
	"internal/poll.(*FD).WriteMsgInet6": "write",
	"internal/poll.(*FD).WaitWrite":     "connect",
	"internal/poll.(*FD).Close":         "close",
	"internal/poll.(*fdMutex).rwlock":   "mutex", // of a descriptor, as of two that write to one connection
	"sync.(*Mutex).Lock":                "mutex",
	"internal/sync.(*Mutex).Lock":       "mutex",
	"internal/sync.(*Mutex).lockSlow":   "mutex",
	"sync.(*Mutex).lockSlow":            "mutex",
	"sync.(*RWMutex).RLock":             "rwmutex read",
	"sync.(*RWMutex).Lock":              "rwmutex write",
	"sync.(*WaitGroup).Wait":            "waitgroup",
	"sync.(*Once).Do":                   "once",
	"sync.(*Once).doSlow":               "once",
	"sync.(*Cond).Wait":                 "cond",
	"runtime.semacquire1":               "semaphore",
}

// selectFunctions tell what a select is for whose innermost function they are.
var selectFunctions = map[string]string{
	"database/sql.(*DB).conn":                         "pool", // of connections
	"golang.org/x/sync/semaphore.(*Weighted).Acquire": "semaphore",
	"net/http.(*Transport).getConn":                   "pool", // of a client, whose connections are in use, or being made
}

// reasons are the words of package task for those of the Go runtime, so that what holds for
// a wait of the one kind holds for the other.
var reasons = map[string]string{
	"chan send":         "channel send",
	"chan receive":      "channel receive",
	"sync.(*Cond).Wait": "cond",
	"":                  "wait",
	"unspecified":       "wait",
}

// refine reports what a wait is for, as precisely as its stack allows.
func refine(reason string, frames []bgraph.Frame) string {
	word := refineReason(reason, frames)
	own := trim(frames)
	switch {
	case word == "select" && len(own) > 0:
		return cmp.Or(selectFunctions[own[0].Function], word)
	case word == "cond" && len(own) > 1 && funcname.OfHTTP2(own[1].Function) == "(*ClientConn).awaitOpenSlotForStreamLocked":
		return "stream" // of an HTTP/2 connection
	case word == "wait" && len(own) > 0 && own[0].Function == "time.Sleep":
		return "sleep"
	}
	return word
}

func refineReason(reason string, frames []bgraph.Frame) string {
	if reason == "sync" || reason == "network" || reason == "" || reason == "unspecified" {
		found := ""
		for i := range frames {
			if what := waitFunctions[frames[i].Function]; what != "" {
				found = what
				// The lock that a lock of higher level uses is not what the program waits for; that of a sync.Cond is the
				// program's own.
				if what == "mutex" && i+1 < len(frames) {
					if outer := waitFunctions[frames[i+1].Function]; outer != "" && outer != "cond" {
						found = outer
						continue
					}
				}
				if what != "semaphore" {
					break
				}
			}
			if i > 8 {
				break
			}
		}
		if found != "" {
			return found
		}
		for i := 0; reason == "" && i < len(frames) && strings.HasPrefix(frames[i].Function, "runtime."); i++ {
			switch name := strings.TrimPrefix(frames[i].Function, "runtime."); {
			case strings.HasPrefix(name, "chanrecv"):
				return "channel receive"
			case strings.HasPrefix(name, "chansend"):
				return "channel send"
			case name == "selectgo" || name == "block":
				return "select"
			case name == "timeSleep":
				return "sleep"
			}
		}
	}
	if word, ok := reasons[reason]; ok {
		return word
	}
	return reason
}

// keyOf names a node in the same way in every trace of the same source: by functions and
// lines, as a trace does not tell where functions begin. Of the standard library only the
// functions count.
func keyOf(reason, label string, frames []bgraph.Frame) bgraph.Key {
	h := fnv.New64a()
	io.WriteString(h, "goroutine\x00"+reason+"\x00"+label)
	for i := range frames {
		f := &frames[i]
		in, literal := funcname.Enclosing(f.Function)
		switch {
		case funcname.OfStandardLibrary(f.Function):
			io.WriteString(h, "\x00"+f.Function)
		case literal:
			io.WriteString(h, "\x00"+in+"\x00"+path.Base(filepath.ToSlash(f.File))+":"+strconv.Itoa(f.Line))
		default:
			io.WriteString(h, "\x00"+f.Function+":"+strconv.Itoa(f.Line))
		}
	}
	k := bgraph.Key(h.Sum64())
	if k < 16 {
		k += 16
	}
	return k
}

// clean makes a text of a trace fit for a graph.
func clean(text string) string { return graphlimits.Name.Clean(text) }
