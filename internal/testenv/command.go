package testenv

import (
	"os"
	"os/exec"
	"path/filepath"
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

// Program finds a program, whose name may be a pattern, in PATH or in /usr/sbin, which Debian leaves out of the PATH of
// users other than root. The test is skipped where it is not installed.
func Program(t testing.TB, name string) string {
	t.Helper()
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin") {
		found, _ := filepath.Glob(filepath.Join(dir, name))
		for _, path := range found {
			if _, err := exec.LookPath(path); err == nil {
				return path
			}
		}
	}
	t.Skip(name + " is not installed")
	return ""
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
