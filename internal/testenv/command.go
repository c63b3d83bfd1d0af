package testenv

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Run runs a program in a folder, "" being this one, with further variables, and returns what it printed.
// It ends the test if the program fails.
func Run(t testing.TB, dir string, env []string, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = dir
	if len(env) > 0 {
		cmd.Env = append(os.Environ(), env...)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return string(out)
}

// HaveC reports whether there is a C compiler, which go build -race needs.
func HaveC() bool {
	out, err := exec.Command("go", "env", "CC").Output()
	if err != nil {
		return false
	}
	_, err = exec.LookPath(strings.TrimSpace(string(out)))
	return err == nil
}
