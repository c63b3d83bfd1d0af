package bgraph

import (
	"cmp"
	"regexp"
	"slices"
	"sort"
	"strings"

	"github.com/capriccio-go/capriccio/internal/funcname"
)

// Name is what people call the node: its label, or the kind of wait and the innermost
// function of the program on its stack, like "read knot.(*conn).readHead".
func (n *Node) Name() string {
	if n.Label != "" {
		return n.Label
	}
	if f := n.Place(); f != nil {
		return n.Reason + " " + funcname.Short(f.Function)
	}
	return n.Reason
}

// Place is the innermost frame that belongs to the program: neither to the runtime nor to the standard library nor, if
// another does, to a module that the program uses. A module that the program adds below a library that it calls, such as a driver
// of package database/sql, does not count. If there is only the standard library, or only the runtime, it is the innermost
// function that programs call. It is nil if the node has no stack.
func (n *Node) Place() *Frame {
	if i := n.placeIndex(); i >= 0 {
		return &n.Stack[i]
	}
	return nil
}

// clients are parts of the standard library that call functions of the program: drivers, transports, writers.
var clients = []string{"database/sql.", "net/http.(*Client).", "log.", "log/slog.", "net.(*Resolver).Lookup"}

func isClient(function string) bool {
	return slices.ContainsFunc(clients, func(prefix string) bool { return strings.HasPrefix(function, prefix) })
}

// placeIndex is the position of Place, -1 if the node has no stack.
func (n *Node) placeIndex() int {
	own := -1
	for i := len(n.Stack) - 1; i >= 0; i-- {
		f := &n.Stack[i]
		if own >= 0 && isClient(f.Function) {
			break
		}
		if funcname.OfProgram(f.Function, f.File) {
			own = i
		}
	}
	if own >= 0 {
		return own
	}
	first, plumbed := -1, true
	for i := range n.Stack {
		f := &n.Stack[i]
		if funcname.OfRuntime(f.Function) {
			continue
		}
		if first < 0 || plumbed && !plumbing(f.Function) {
			first, plumbed = i, plumbing(f.Function)
		}
		if !funcname.OfStandardLibrary(f.Function) {
			return i
		}
	}
	if first >= 0 {
		return first
	}
	for i := range n.Stack {
		if exported(n.Stack[i].Function) {
			return i
		}
	}
	return len(n.Stack) - 1
}

// plumbing reports whether a function belongs to the parts of the standard library through
// which others wait: it says little of where that is.
func plumbing(function string) bool {
	if strings.HasPrefix(function, "net.(*Resolver).") {
		return false // that names are looked up says much
	}
	return slices.ContainsFunc([]string{"runtime.", "internal/", "syscall.", "sync.", "net.", "os.", "io.", "bufio.", "context.", "time.", "crypto/tls."}, func(prefix string) bool { return strings.HasPrefix(function, prefix) })
}

// exported reports whether a function, or the one that a closure stands in, can be called by
// other packages: netpoll.Serve.func1, netpoll.(*Conn).Read.
func exported(function string) bool {
	name := funcname.Short(function)
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

// Node returns the node with the given key, nil if there is none.
func (s *Snapshot) Node(k Key) *Node {
	i, found := sort.Find(len(s.Nodes), func(i int) int { return cmp.Compare(k, s.Nodes[i].Key) }) // without a copy of each node
	if !found {
		return nil
	}
	return &s.Nodes[i]
}

// NameOf is the name of the node with the given key.
func (s *Snapshot) NameOf(k Key) string {
	if n := s.Node(k); n != nil {
		return n.Name()
	}
	return k.String()
}

// Filter returns a Snapshot with only the nodes whose name, reason or a function of whose stack
// focus matches, and ignore does not. A nil focus matches every node, a nil ignore none; if both are
// nil, it returns s. The start and the end are always kept, and so are edges and crossings between nodes that are kept.
func (s *Snapshot) Filter(focus, ignore *regexp.Regexp) *Snapshot {
	if focus == nil && ignore == nil {
		return s
	}
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
	return slices.ContainsFunc(n.Stack, func(f Frame) bool { return re.MatchString(f.Function) })
}
