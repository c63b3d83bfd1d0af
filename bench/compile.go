package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed c
var cSources embed.FS

// cPrograms are the C baselines: the source and the libraries of each system.
var cPrograms = map[string]struct {
	source string
	flags  []string
}{
	"pthread":       {"pthread.c", []string{"-pthread"}},
	"state-threads": {"st.c", []string{"-lst"}},
	"epoll-c":       {"epoll.c", nil},
	"pthread-disk":  {"disk.c", []string{"-pthread"}},
}

// compileC builds a system's C baseline into dir and returns its path.
func compileC(ctx context.Context, dir, system string) (string, error) {
	compiler, err := exec.LookPath("cc")
	if err != nil {
		return "", fmt.Errorf("no C compiler: %w", err)
	}
	program, ok := cPrograms[system]
	if !ok {
		return "", fmt.Errorf("no C baseline of that name")
	}
	sources := filepath.Join(dir, "c")
	if _, err := os.Stat(sources); errors.Is(err, fs.ErrNotExist) {
		if err := os.CopyFS(dir, cSources); err != nil {
			return "", err
		}
	}
	path := filepath.Join(dir, system)
	args := append([]string{"-O2", "-o", path, filepath.Join(sources, program.source)}, program.flags...)
	if out, err := exec.CommandContext(ctx, compiler, args...).CombinedOutput(); err != nil {
		first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
		return "", fmt.Errorf("cc %s: %w: %s", program.source, err, first)
	}
	return path, nil
}
