package lint

import (
	"slices"
	"strings"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/funcname"
	"github.com/capriccio-go/capriccio/internal/words"
)

// The code to blame for a wait: the place in the program, the call that waits there, and the locks held meanwhile.

// occupancy is how many goroutines are at n on average.
func (l *linter) occupancy(n *bgraph.Node) float64 { return words.Waiting(l.s, n) }

// ownPlace is where the program itself waits at n, nil if only the standard library does.
func ownPlace(n *bgraph.Node) *bgraph.Frame {
	if f := n.Place(); f != nil && !funcname.OfStandardLibrary(f.Function) {
		return f
	}
	return nil
}

// foreign reports whether only goroutines of the standard library wait at n, such as the goroutines of net/http's connections. A program
// can't change what these do.
func (l *linter) foreign(n *bgraph.Node) bool {
	return l.s.Kind == bgraph.KindGoroutines && n != nil && len(n.Stack) > 0 && ownPlace(n) == nil
}

// startOf is the function that the goroutines at n began with, as far as the stack tells.
func startOf(n *bgraph.Node) string {
	if len(n.Stack) == 0 {
		return ""
	}
	return n.Stack[len(n.Stack)-1].Function
}

// declared is a function without the literals in it: main.f of main.f.func1.
func declared(function string) string {
	name, literal := funcname.Enclosing(function)
	if !literal {
		return function
	}
	at := strings.LastIndex(function, "."+name+".") // in its package, whose name may be the same
	if at < 0 {
		return function
	}
	return function[:at+1+len(name)]
}

// frameOf is the innermost frame of n that is in a function or in literals of it, and the function that is called there.
func frameOf(n *bgraph.Node, function string) (f *bgraph.Frame, callee string) {
	for i := range n.Stack {
		if f := &n.Stack[i]; declared(f.Function) == declared(function) {
			if i > 0 {
				callee = n.Stack[i-1].Function
			}
			return f, callee
		}
	}
	return nil, ""
}

// waker is the function that ended most waits at n, and the share that it ended.
func waker(n *bgraph.Node) (most bgraph.Waker, share float64) {
	var all uint64
	by := map[string]uint64{}
	for _, w := range n.Wakers {
		all += w.Count
		by[declared(w.Function)] += w.Count
	}
	for _, w := range n.Wakers { // the most frequent line of the most frequent function
		if w.Function != "" && by[declared(w.Function)] > by[declared(most.Function)] {
			most = w
		}
	}
	return most, words.Ratio(float64(by[declared(most.Function)]), float64(all))
}

func atFrame(f *bgraph.Frame) string { return words.At(f.Function, f.File, f.Line) }

// doing is what a goroutine does at n in a function of the program that calls another.
func doing(n *bgraph.Node, callee string) string {
	switch {
	case callee == "time.Sleep" || callee == "" && n.Reason == "sleep":
		return "sleeps"
	case callee != "" && !strings.HasPrefix(callee, "sync.") && !strings.HasPrefix(callee, "internal/"):
		return "calls " + funcname.Short(callee)
	}
	switch n.Reason {
	case "mutex", "rwmutex read", "rwmutex write":
		return "waits for another lock"
	case "channel send", "channel receive", "select", "cond", "waitgroup":
		return "waits (" + n.Reason + ")"
	}
	return "waits for a " + n.Reason
}

// lockOwner is the type that has the lock waited for at n: the receiver of the method that locks it; "" if it is not known.
func lockOwner(n *bgraph.Node) string {
	for _, f := range n.Stack {
		if strings.HasPrefix(f.Function, "sync.") || strings.HasPrefix(f.Function, "internal/") || strings.HasPrefix(f.Function, "runtime.") {
			continue
		}
		short := funcname.Short(declared(f.Function))
		pkg, rest, _ := strings.Cut(short, ".")
		receiver, _, method := strings.Cut(rest, ".")
		if !method {
			return ""
		}
		if receiver = strings.Trim(receiver, "(*)"); receiver == "" {
			return ""
		}
		return pkg + "." + receiver
	}
	return ""
}

// calls reports whether the program calls a library at n, which waits for the outside world there, and returns where.
func calls(n *bgraph.Node) *bgraph.Frame {
	f := ownPlace(n)
	if f == nil {
		return nil
	}
	_, callee := words.Frames(n, 1)
	pkg := words.PackageOf(callee)
	if pkg == "" || pkg == "sync" || pkg == "runtime" || pkg == "time" || strings.HasPrefix(pkg, "internal/") || !funcname.OfStandardLibrary(callee) && pkg == words.PackageOf(f.Function) {
		if n.Reason != "system call" {
			return nil
		}
	}
	return f
}

// ofNetHTTP reports whether a function is one of net/http, or of the package for HTTP/2 that it has or is given.
func ofNetHTTP(function string) bool {
	return strings.HasPrefix(function, "net/http.") || funcname.OfHTTP2(function) != ""
}

// served reports whether the stack is that of a handler of net/http.
func served(n *bgraph.Node) bool {
	return !words.ServesHTTP2(n) && slices.ContainsFunc(n.Stack, func(f bgraph.Frame) bool {
		return f.Function == "net/http.serverHandler.ServeHTTP" || funcname.OfHTTP2(f.Function) == funcname.HTTP2Request
	})
}
