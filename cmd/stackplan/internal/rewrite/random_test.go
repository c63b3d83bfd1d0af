package rewrite

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

var (
	seed  = flag.Uint64("seed", 0, "seed of the first random program; 0: a new one")
	count = flag.Int("random", 5, "number of random programs")
)

// A generator writes a random program: functions that call each other in all the ways
// that Go has, and end in all ways but one.
type generator struct {
	rnd   *rand.Rand
	b     strings.Builder
	p     string // before all names of the program
	kinds []int  // of the functions, by number
	names int
	depth int
}

// Kinds of functions. Each takes the depth n that is left.
const (
	plainKind    = iota // (n int) int
	pairKind            // (n int, s string) (int, error)
	pointerKind         // method of *T (n int) int
	variadicKind        // method of T (n int, rest ...int) (r int)
	genericKind         // [X any](x X, n int) (X, int)
	higherKind          // (n int, g func(int) int) int
	kinds
)

const randomFrame = `package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/capriccio-go/capriccio/cmd/stackplan/internal/rewrite/testdata/programs/runner"
)

var (
	out      strings.Builder
	fuel     int
	programs []func()
)

func say(args ...any) { fmt.Fprintln(&out, args...) }

func burn() bool { fuel--; return fuel > 0 }

func attempt(f func() int) {
	defer func() {
		if r := recover(); r != nil {
			say("panic:", r)
		}
	}()
	say("result:", f())
}

func main() {
	all := func() {
		for i, p := range programs {
			say("== program", i)
			p()
		}
	}
	if len(os.Args) > 1 {
		if err := runner.Run(all); err != nil {
			say(err)
		}
	} else {
		all()
	}
	os.Stdout.WriteString(out.String())
}
`

func (g *generator) printf(format string, args ...any) { fmt.Fprintf(&g.b, format, args...) }

func (g *generator) fresh() string {
	g.names++
	return fmt.Sprintf("v%d", g.names)
}

// program writes one file.
func (g *generator) program() string {
	g.printf("package main\n\nimport (\n\t\"fmt\"\n\n\t\"%s/cmd/stackplan/internal/rewrite/testdata/programs/runner\"\n)\n\n", modulePath)
	g.printf("type %sT struct{ a, b int }\n\ntype %sI interface{ %s }\n\n", g.p, g.p, g.methodSet())
	g.printf("var _ = func() bool {\n\tprograms = append(programs, func() {\n\t\tfor n := range 7 {\n\t\t\tfuel = 3000\n\t\t\tattempt(func() int { return %sf0(n) })\n\t\t}\n\t})\n\treturn true\n}()\n\n", g.p)
	for i := range g.kinds {
		g.function(i)
	}
	g.printf("var _ = fmt.Sprint\n\nvar _ = runner.Yield\n")
	return g.b.String()
}

func (g *generator) methodSet() string {
	var list []string
	for i, k := range g.kinds {
		if k == pointerKind {
			list = append(list, fmt.Sprintf("f%d(int) int", i))
		}
	}
	return strings.Join(list, "; ")
}

func (g *generator) function(i int) {
	zero := "-n"
	switch g.kinds[i] {
	case plainKind:
		g.printf("func %sf%d(n int) int {\n\tt := &%sT{n, 2}\n", g.p, i, g.p)
	case pairKind:
		g.printf("func %sf%d(n int, s string) (int, error) {\n\tt := &%sT{n, len(s)}\n", g.p, i, g.p)
		zero = "len(s), fmt.Errorf(\"zero %d\", n)"
	case pointerKind:
		g.printf("func (t *%sT) f%d(n int) int {\n\tt.a++\n", g.p, i)
	case variadicKind:
		g.printf("func (u %sT) f%d(n int, rest ...int) (r int) {\n\tt := &u\n\tdefer func() { r += len(rest) }()\n", g.p, i)
	case genericKind:
		g.printf("func %sf%d[X any](x X, n int) (X, int) {\n\tt := &%sT{n, len(fmt.Sprint(x))}\n", g.p, i, g.p)
		zero = "x, -n"
	case higherKind:
		g.printf("func %sf%d(n int, g func(int) int) int {\n\tt := &%sT{n, 1}\n", g.p, i, g.p)
	}
	g.printf("\tif n <= 0 || !burn() {\n\t\treturn %s\n\t}\n\tv := t.a + t.b + n\n\t_ = v\n", zero)
	for range 2 + g.rnd.IntN(5) {
		g.statement()
	}
	v := "v%1000"
	switch g.kinds[i] {
	case pairKind:
		if g.rnd.IntN(2) == 0 {
			if j, ok := g.pick(pairKind); ok {
				g.printf("\tif v > 0 {\n\t\treturn %sf%d(n-1, s)\n\t}\n", g.p, j)
			}
		}
		v += ", nil"
	case variadicKind:
		g.printf("\tr = %s\n\treturn\n}\n\n", v)
		return
	case genericKind:
		v = "x, " + v
	case higherKind:
		v = "v%1000 + g(n-1)"
	case plainKind, pointerKind:
		if g.rnd.IntN(3) == 0 {
			v = g.call()
		}
	}
	g.printf("\treturn %s\n}\n\n", v)
}

// pick chooses a function of a kind.
func (g *generator) pick(kind int) (int, bool) {
	start := g.rnd.IntN(len(g.kinds))
	for i := range g.kinds {
		if j := (start + i) % len(g.kinds); g.kinds[j] == kind {
			return j, true
		}
	}
	return 0, false
}

// call is an expression of type int with a call in it.
func (g *generator) call() string {
	g.depth++
	defer func() { g.depth-- }()
	i := g.rnd.IntN(len(g.kinds))
	arg := fmt.Sprintf("v%%%d", 2+g.rnd.IntN(5))
	if g.depth < 3 && g.rnd.IntN(4) == 0 {
		arg = g.call()
	}
	name := fmt.Sprintf("%sf%d", g.p, i)
	switch g.kinds[i] {
	case plainKind:
		return name + "(n-1)"
	case pairKind:
		return fmt.Sprintf("func() int { a, _ := %s(n-1, fmt.Sprint(%s)); return a }()", name, arg)
	case pointerKind:
		return fmt.Sprintf("%s.f%d(n-1)", g.receiver(), i)
	case variadicKind:
		rest := []string{"", ", " + arg, ", 1, " + arg, ", []int{1, v}..."}[g.rnd.IntN(4)]
		return fmt.Sprintf("t.f%d(n-1%s)", i, rest)
	case genericKind:
		x := []string{arg, "\"x\"", "t", "[2]int{v, 1}", "error(nil)", "fmt.Sprint"}[g.rnd.IntN(6)]
		return fmt.Sprintf("func() int { _, a := %s(%s, n-1); return a }()", name, x)
	}
	return fmt.Sprintf("%s(n-1, func(k int) int { v++; return k + %s })", name, arg)
}

func (g *generator) receiver() string {
	return []string{"t", "(*t).self" + g.p + "()", g.p + "I(t)", "(&" + g.p + "T{v, 1})"}[[]int{0, 0, 2, 3}[g.rnd.IntN(4)]]
}

// statement writes one.
func (g *generator) statement() {
	switch g.rnd.IntN(16) {
	case 0, 1:
		g.printf("\tv += %s\n", g.call())
	case 2:
		x := g.fresh()
		g.printf("\t%s := %s\n\tsay(%q, %s)\n\tv ^= %s\n", x, g.call(), x, x, x)
	case 3:
		if j, ok := g.pick(pairKind); ok {
			x := g.fresh()
			g.printf("\t%s, err%s := %sf%d(n-1, %q)\n\tv += %s\n\tif err%s != nil {\n\t\tv++\n\t}\n", x, x, g.p, j, x, x, x)
		}
	case 4:
		g.printf("\tif %s > %d {\n\t\tv *= 2\n\t\tsay(\"if\", v)\n\t}\n", g.call(), g.rnd.IntN(9)-3)
	case 5:
		g.printf("\tfor i := range 2 {\n\t\tv += i * %s\n\t}\n", g.call())
	case 6:
		g.printf("\tdefer func() {\n\t\tif r := recover(); r != nil {\n\t\t\tsay(\"recovered\", r, v, %s)\n\t\t}\n\t}()\n", g.call())
	case 7:
		if j, ok := g.pick(plainKind); ok {
			g.printf("\tdefer %sf%d(n - 2)\n\tdefer say(\"deferred\", v, %s)\n", g.p, j, g.call())
		}
	case 8:
		g.printf("\tif v%%%d == 1 {\n\t\tpanic(fmt.Sprint(\"panic \", v, \" \", %s))\n\t}\n", 3+g.rnd.IntN(6), g.call())
	case 9:
		c := g.fresh()
		g.printf("\t%s := func(k int) int {\n\t\tv += k\n\t\treturn %s\n\t}\n\tv = %s(n) + %s(1)\n", c, g.call(), c, c)
	case 10:
		if j, ok := g.pick(pointerKind); ok {
			h := g.fresh()
			g.printf("\t%s := t.f%d\n\tv += %s(n-1) + (*%sT).f%d(t, n-2)\n", h, j, h, g.p, j)
		}
	case 11:
		g.printf("\tvar buf%d [%d]int\n\tbuf%d[uint(v)%%64] = %s\n\tv += buf%d[3]\n", g.names, 64<<g.rnd.IntN(6), g.names, g.call(), g.names)
		g.names++
	case 12:
		g.printf("\tswitch %s %% 3 {\n\tcase 0:\n\t\tv = %s\n\tcase %s:\n\t\tv--\n\tdefault:\n\t\tsay(\"default\", v)\n\t}\n", g.call(), g.call(), g.call())
	case 13:
		g.printf("\trunner.Yield()\n")
	case 14:
		g.printf("\tt.a, v = %s, %s\n", g.call(), g.call())
	case 15:
		g.printf("\tsay(\"both\", []int{%s, v}, map[string]int{fmt.Sprint(v): %s})\n", g.call(), g.call())
	}
}

// randomPrograms writes a package of programs that exists only in an overlay.
func randomPrograms(t testing.TB, first uint64, n int) map[string][]byte {
	t.Helper()
	dir := testenv.Need(filepath.Abs("testdata/random"))(t)
	files := map[string][]byte{filepath.Join(dir, "main.go"): []byte(randomFrame)}
	for i := range n {
		g := &generator{rnd: rand.New(rand.NewPCG(first+uint64(i), 1)), p: fmt.Sprintf("p%d", i)}
		g.kinds = []int{plainKind, pointerKind}
		for range 3 + g.rnd.IntN(6) {
			g.kinds = append(g.kinds, g.rnd.IntN(kinds))
		}
		files[filepath.Join(dir, fmt.Sprintf("p%d.go", i))] = []byte(g.program())
	}
	return files
}

func TestRandomPrograms(t *testing.T) {
	testenv.NeedsFull(t, "many programs")
	first := *seed
	if first == 0 {
		first = rand.Uint64()
	}
	t.Logf("-seed=%d", first)
	files := randomPrograms(t, first, *count)
	r := rewriterOf(load(t, files, false, "./testdata/random"), files)
	want := output(t, build(t, &Result{Files: files}, "./testdata/random", "plain"))
	testenv.AtLeast(t, strings.Count(want, "\n"), 20**count, "the programs say only N lines")
	done := testenv.Need(r.Files(everyCall(r, mixed)))(t)
	for name, text := range files {
		if done.Files[name] == nil {
			done.Files[name] = text
		}
	}
	bin := build(t, done, "./testdata/random", "rewritten")
	same(t, output(t, bin), want)
	same(t, output(t, bin, "task"), want)
	if testing.Short() || !testenv.HaveC() {
		return
	}
	bin = build(t, done, "./testdata/random", "race", "-race")
	same(t, output(t, bin, "task"), want)
}
