package rewrite

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// compiled is what the compiler says about escapes.
func compiled(t testing.TB, r *Rewriter, res *Result, pkg string) ([]byte, string) {
	t.Helper()
	args := append([]string{"build", "-o", os.DevNull}, r.GCFlags()...)
	if res != nil {
		args = append(args, "-overlay", overlayOf(t, res))
	}
	dir := testenv.Need(os.Getwd())(t)
	return []byte(testenv.Run(t, "", nil, "go", append(args, pkg)...)), dir
}

// settle leaves out checkpoints until none moves something to the heap.
func settle(t testing.TB, r *Rewriter, pkg string) {
	t.Helper()
	r.SetBefore(compiled(t, r, nil, pkg))
	for round := 0; ; round++ {
		res := testenv.Need(r.Files(everyCall(r, always), true))(t)
		text, dir := compiled(t, r, res, pkg)
		n := r.Blame(text, dir, res)
		t.Logf("round %d: %d checkpoints, %d move something to the heap", round, len(res.Calls), n)
		if n == 0 {
			return
		}
		if round == 8 {
			t.Fatal("there is no end to it")
		}
	}
}

// TestNothingMovesToTheHeap runs a program that counts its allocations and compares the
// time of checkpoints.
func TestNothingMovesToTheHeap(t *testing.T) {
	testenv.NeedsFull(t, "the compiler says what escapes")
	const pkg = "./testdata/escapes"
	r := rewriterOf(load(t, nil, false, pkg), nil)
	settle(t, r, pkg)
	res := testenv.Need(r.Files(everyCall(r, always), false))(t)
	testenv.AtLeast(t, len(res.Calls), 10, "checkpoints are left")
	want, plain, _ := strings.Cut(output(t, build(t, nil, pkg, "plain")), "ns: ")
	got, checked, _ := strings.Cut(output(t, build(t, res, pkg, "rewritten")), "ns: ")
	same(t, got, want)
	ns := number(t, checked) - number(t, plain)
	t.Logf("a checkpoint with room takes %.2f ns", ns)
	// It takes 3 ns on a machine that does nothing else.
	testenv.AtMost(t, ns, 12, "ns that a checkpoint with room takes")
	at := map[string]bool{} // that move something to the heap
	for _, c := range res.Refused {
		if strings.HasPrefix(c.Reason, "something that is handed over") {
			at[c.Site] = true
		}
	}
	testenv.AtLeast(t, len(at), 4, "only %v are left out as they move something to the heap", at)
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	n := testenv.Need(strconv.ParseFloat(strings.TrimSpace(text), 64))(t)
	return n
}
