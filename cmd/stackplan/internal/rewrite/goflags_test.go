package rewrite

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestVetLikesRewrittenPrograms(t *testing.T) {
	testenv.NeedsFull(t, "go vet, twice")
	r := loadPrograms(t)
	done := testenv.Need(r.Files(everyCall(r, mixed), false))(t)
	// The sources have a self-made list of arguments to append to, and so on; what is
	// compared is what vet says of them without checkpoints.
	plain, _ := exec.Command("go", "vet", programsDir).CombinedOutput()
	text, _ := exec.Command("go", "vet", "-overlay", overlayOf(t, done), programsDir).CombinedOutput()
	if string(text) != string(plain) {
		t.Errorf("go vet says of the rewritten programs:\n%s\nof the others:\n%s", text, plain)
	}
}

func TestRaceDetectorIsQuiet(t *testing.T) {
	testenv.NeedsFull(t, "a build with the race detector")
	if !testenv.HaveC() || testing.Short() {
		t.Skip("go build -race needs a C compiler, and some time")
	}
	r := loadPrograms(t)
	done := testenv.Need(r.Files(everyCall(r, never), false))(t)
	want := output(t, build(t, nil, programsDir, "plain"))
	bin := build(t, done, programsDir, "race", "-race")
	same(t, output(t, bin), want)
	got, _, _ := strings.Cut(output(t, bin, "task"), "links: ")
	same(t, got, want)
}

// TestLinesStay compares the lines that coverage and a stack trace show.
func TestLinesStay(t *testing.T) {
	testenv.NeedsFull(t, "builds with coverage")
	r := loadPrograms(t)
	done := testenv.Need(r.Files(everyCall(r, always), false))(t)
	covered := func(res *Result) string {
		bin := build(t, res, programsDir, "cover", "-cover")
		dir := t.TempDir()
		testenv.Run(t, "", []string{"GOCOVERDIR=" + dir}, bin)
		profile := filepath.Join(dir, "profile")
		testenv.Run(t, "", nil, "go", "tool", "covdata", "textfmt", "-i", dir, "-o", profile)
		text := testenv.Need(os.ReadFile(profile))(t)
		return string(text)
	}
	// Blocks are file:line.column,line.column statements count.
	block := regexp.MustCompile(`(?m)^.*/(\w+\.go):(\d+)\.\d+,(\d+)\.\d+ \d+ (\d+)$`)
	lines := func(profile string) map[string]bool {
		ran := map[string]bool{}
		for _, m := range block.FindAllStringSubmatch(profile, -1) {
			key := m[1] + ":" + m[2] + "-" + m[3]
			ran[key] = ran[key] || m[4] != "0"
		}
		return ran
	}
	with, without := lines(covered(done)), lines(covered(nil))
	if len(without) < 100 {
		t.Fatalf("%d blocks are covered", len(without))
	}
	for key, ran := range without {
		if got, known := with[key]; known && got != ran {
			t.Errorf("block %s ran %v with checkpoints, %v without", key, got, ran)
		}
	}
	missing := 0
	for key := range without {
		if _, known := with[key]; !known {
			missing++
		}
	}
	testenv.AtMost(t, missing, len(without)/20, "of %d blocks are at other lines with checkpoints", len(without))
}
