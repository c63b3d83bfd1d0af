package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// moduleFolder is where the sources of this program's module are.
func moduleFolder(ctx context.Context) (string, error) {
	mod, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	path := strings.TrimSpace(string(mod))
	if filepath.Base(path) != "go.mod" {
		return "", fmt.Errorf("not inside the repository")
	}
	return filepath.Dir(path), nil
}

// buildExample builds one program of the folder examples and returns its path.
func (r *run) buildExample(name string) (string, error) {
	folder, err := moduleFolder(r.ctx)
	if err != nil {
		return "", err
	}
	path := filepath.Join(r.scratch, "example-"+name)
	build := exec.CommandContext(r.ctx, "go", "build", "-C", folder, "-o", path, "./examples/"+name)
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build ./examples/%s: %w: %s", name, err, lastLine(out))
	}
	return path, nil
}
