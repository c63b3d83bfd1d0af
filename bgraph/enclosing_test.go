package bgraph

import "testing"

func TestEnclosing(t *testing.T) {
	for _, c := range []struct {
		function, name string
		literal        bool
	}{
		{"main.main", "main", false},
		{"main.func1", "func1", false}, // a function may be called so
		{"example.com/x.y/shop.(*T).M", "M", false},
		{"main.T.M.func2", "M", true},
		{"main.glob.inl.func3.1", "inl", true},
		{"main.inl.func1.1", "inl", true},
		{"main.(*T).M.(*T).M.func1.func5", "M", true},
		{"main.(*T).M.func1.func1", "M", true},
		{"main.(*T).M.func1.1", "M", true},
		{"main.(*T).M-range1", "M", true},
		{"main.(*T).M-range1.func1", "M", true},
		{"main.f.func1-range1.2", "f", true},
		{"main.(*T).M.(*T).M.seq.func6.(*T).M-range1.func7", "M", true},
		{"example.com/shop.G[...].func1.func2", "G[...]", true},
		{"example.com/shop.(*L[go.shape.int,example.com/b.C]).Do.func1", "Do", true},
		{"main.init.0.func1", "init", true},
		{"main.init.init.func2.func3", "init", true},
		{"main.main.gowrap2", "main", true},
		{"main.f.deferwrap1", "f", true},
		{"", "", false},
		{"assembly", "assembly", false},
	} {
		if name, literal := enclosing(c.function); name != c.name || literal != c.literal {
			t.Errorf("enclosing(%q) = %q, %v; want %q, %v", c.function, name, literal, c.name, c.literal)
		}
	}
}

// Dumps of one program from before and after a change of the compiler, with other keys as
// lines have moved too, are compared node by node.
func TestSuccessorsOfRenamedLiterals(t *testing.T) {
	snapshot := func(key Key, names ...string) *Snapshot {
		s := &Snapshot{}
		for i, name := range names {
			s.Nodes = append(s.Nodes, Node{Key: key + Key(i), Reason: "read", Stack: []Frame{{Function: name}}})
		}
		return s
	}
	before := snapshot(0x20, "main.glob.inl.func3.1", "main.two.func1", "main.two.func2", "main.same")
	after := snapshot(0x40, "main.inl.func1.1", "main.two.func1", "main.two.func3", "main.same")
	got := successors(before, after)
	for from, to := range map[Key]Key{0x20: 0x40, 0x21: 0x41, 0x22: 0x42, 0x23: 0x43} {
		if got[from] != to {
			t.Errorf("%v has the successor %v, want %v", from, got[from], to)
		}
	}
}
