package bgraph

import (
	"regexp"
	"strings"
)

// own are the packages of the runtime itself: a place is named after their caller.
var own = []string{
	"github.com/capriccio-go/capriccio/task.",
	"github.com/capriccio-go/capriccio/ressched.",
	"github.com/capriccio-go/capriccio/internal/engine.",
	"github.com/capriccio-go/capriccio/netpoll.",
	"github.com/capriccio-go/capriccio/aio.",
	"github.com/capriccio-go/capriccio/stackchunk.",
}

// Name is what people call the node: its label, or the kind of wait and the innermost
// function of the program on its stack, like "read knot.(*conn).readHead".
func (n *Node) Name() string {
	if n.Label != "" {
		return n.Label
	}
	if f := n.Place(); f != nil {
		return n.Reason + " " + ShortFunction(f.Function)
	}
	return n.Reason
}

// Place is the innermost frame that belongs to the program: neither to the runtime nor
// to the standard library, unless there is nothing else. If there is only the runtime, it
// is the innermost function that programs call. It is nil if the node has no stack.
func (n *Node) Place() *Frame {
	var first *Frame
	plumbed := true
	for i := range n.Stack {
		f := &n.Stack[i]
		if ofRuntime(f.Function) {
			continue
		}
		if first == nil || plumbed && !plumbing(f.Function) {
			first, plumbed = f, plumbing(f.Function)
		}
		if !OfStandardLibrary(f.Function) {
			return f
		}
	}
	if first != nil || len(n.Stack) == 0 {
		return first
	}
	for i := range n.Stack {
		if exported(n.Stack[i].Function) {
			return &n.Stack[i]
		}
	}
	return &n.Stack[len(n.Stack)-1]
}

// plumbing reports whether a function belongs to the parts of the standard library through
// which others wait: it says little of where that is.
func plumbing(function string) bool {
	if strings.HasPrefix(function, "net.(*Resolver).") {
		return false // that names are looked up says much
	}
	for _, prefix := range []string{"runtime.", "internal/", "syscall.", "sync.", "net.", "os.", "io.", "bufio.", "context.", "time.", "crypto/tls."} {
		if strings.HasPrefix(function, prefix) {
			return true
		}
	}
	return false
}

// exported reports whether a function, or the one that a closure stands in, can be called by
// other packages: netpoll.Serve.func1, netpoll.(*Conn).Read.
func exported(function string) bool {
	name := ShortFunction(function)
	for _, part := range strings.Split(name, ".")[1:] {
		if part = strings.TrimPrefix(part, "(*"); part == "" || part[0] < 'A' || part[0] > 'Z' {
			return false // the method of a hidden type is hidden too
		}
		if strings.HasSuffix(part, ")") {
			continue
		}
		return true
	}
	return false
}

func ofRuntime(function string) bool {
	for _, prefix := range own {
		if strings.HasPrefix(function, prefix) {
			return true
		}
	}
	return false
}

// OfStandardLibrary goes by the rule that an import path whose first element has no
// dot belongs to the standard library; "main" is the exception.
func OfStandardLibrary(function string) bool {
	path, _, inFolder := strings.Cut(function, "/")
	if !inFolder {
		path, _, _ = strings.Cut(function, ".")
		return path != "main" && !strings.HasSuffix(path, "_test")
	}
	return !strings.Contains(path, ".")
}

// ShortFunction is the name of a function without the folders of its package. Of a package whose
// path ends in a major version, such as v2, the name is what stands before that.
func ShortFunction(function string) string {
	end := strings.IndexByte(function, '[') // type arguments have slashes of their own
	if end < 0 {
		end = len(function)
	}
	last := strings.LastIndexByte(function[:end], '/')
	short := function[last+1:]
	if pkg, _, _ := strings.Cut(short, "."); last > 0 && len(pkg) > 1 && pkg[0] == 'v' && strings.Trim(pkg[1:], "0123456789") == "" {
		return function[strings.LastIndexByte(function[:last], '/')+1:last] + short[len(pkg):]
	}
	return short
}

// Node returns the node with the given key, nil if there is none.
func (s *Snapshot) Node(k Key) *Node {
	lo, hi := 0, len(s.Nodes)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if s.Nodes[mid].Key < k {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo < len(s.Nodes) && s.Nodes[lo].Key == k {
		return &s.Nodes[lo]
	}
	return nil
}

// NameOf is the name of the node with the given key.
func (s *Snapshot) NameOf(k Key) string {
	if n := s.Node(k); n != nil {
		return n.Name()
	}
	return k.String()
}

// Filter returns a Snapshot with those nodes only whose name or one of whose functions
// focus matches, and ignore does not; nil matches all and nothing. The edges between
// them stay, and those to and from the start and the end, which are kept, and crossings likewise.
func (s *Snapshot) Filter(focus, ignore *regexp.Regexp) *Snapshot {
	out := *s
	out.Nodes, out.Edges = nil, nil
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.Key == KeyStart || n.Key == KeyEnd || (focus == nil || n.matches(focus)) && !(ignore != nil && n.matches(ignore)) {
			out.Nodes = append(out.Nodes, *n)
		}
	}
	for i := range s.Edges {
		if e := &s.Edges[i]; out.Node(e.From) != nil && out.Node(e.To) != nil {
			out.Edges = append(out.Edges, *e)
		}
	}
	out.dropCrossings()
	return &out
}

func (n *Node) matches(re *regexp.Regexp) bool {
	if re.MatchString(n.Name()) || re.MatchString(n.Reason) {
		return true
	}
	for i := range n.Stack {
		if re.MatchString(n.Stack[i].Function) {
			return true
		}
	}
	return false
}
