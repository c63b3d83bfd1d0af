package funcname

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
		if name, literal := Enclosing(c.function); name != c.name || literal != c.literal {
			t.Errorf("Enclosing(%q) = %q, %v; want %q, %v", c.function, name, literal, c.name, c.literal)
		}
	}
}
