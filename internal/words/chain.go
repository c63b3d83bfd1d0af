package words

import (
	"slices"
	"strings"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/funcname"
)

// chainFrames is how many functions of the program a chain names: more do not fit in a box.
const chainFrames = 3

// waitPackages are packages whose functions only wait: the reason of a node says as much.
var waitPackages = []string{"sync/", "runtime/", "time/", "internal/", "github.com/capriccio-go/capriccio/"}

// Path says which functions of the program lead to n, and what they call: "main.gather a.go:7 ← main.ask b.go:9 ← net/http".
// It is "" where that says no more than the name of n.
func Path(n *bgraph.Node) string {
	return joinChain(n, chainFrames, func(f *bgraph.Frame, _ string) string {
		return strings.TrimSpace(funcname.Short(f.Function) + " " + Position(f.File, f.Line))
	})
}

// Chain is Path without positions, and without packages that are named before: "main.gather ← ask ← net/http". It takes no
// more than so many columns: the outermost functions go first, and "" is left of a chain that is too long even then.
func Chain(n *bgraph.Node, columns int) string {
	for frames := chainFrames; frames > 0; frames-- {
		if chain := joinChain(n, frames, nameAfter); Width(chain) <= columns {
			return chain
		}
	}
	return ""
}

// Frames are the frames of the program that lead to the place of n, which is the last, and the function that is called there; ""
// if n waits by itself. There are at most so many frames.
func Frames(n *bgraph.Node, most int) (path []bgraph.Frame, callee string) {
	place := n.Place()
	for i := range n.Stack {
		switch f := &n.Stack[i]; {
		case f == place && i > 0:
			callee = n.Stack[i-1].Function
		case f != place && (len(path) == 0 || !funcname.OfProgram(f.Function, f.File)):
			continue
		}
		if len(path) < most {
			path = append(path, n.Stack[i])
		}
	}
	slices.Reverse(path)
	return path, callee
}

// Outermost is the outermost frame of the program on a stack, nil if there is none.
func Outermost(stack []bgraph.Frame) *bgraph.Frame {
	for i := range slices.Backward(stack) {
		if funcname.OfProgram(stack[i].Function, stack[i].File) {
			return &stack[i]
		}
	}
	return nil
}

// nameAfter is the name of a function, without its package if the function before it is of the same package.
func nameAfter(f *bgraph.Frame, before string) string {
	name := funcname.Short(f.Function)
	if before != "" && PackageOf(f.Function) == PackageOf(before) {
		return name[strings.IndexByte(name, '.')+1:]
	}
	return name
}

// joinChain writes the last frames that lead to n, each with the function of the one before it.
func joinChain(n *bgraph.Node, most int, write func(f *bgraph.Frame, before string) string) string {
	frames, callee := Frames(n, most)
	if len(frames) == 0 || funcname.OfStandardLibrary(frames[len(frames)-1].Function) {
		return ""
	}
	var parts []string
	before := ""
	for i := range frames {
		parts = append(parts, write(&frames[i], before))
		before = frames[i].Function
	}
	if pkg := PackageOf(callee); pkg != "" && !slices.ContainsFunc(waitPackages, func(prefix string) bool { return strings.HasPrefix(pkg+"/", prefix) }) {
		parts = append(parts, pkg)
	}
	if len(parts) == 1 {
		return ""
	}
	return strings.Join(parts, " ← ")
}
