package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
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

const mainModule = "github.com/capriccio-go/capriccio"

// moduleFolder returns the folder of the main module's sources, which is above that of this one.
func moduleFolder(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", mainModule).Output()
	if err != nil {
		return "", fmt.Errorf("go list -m %s: %w; want to be inside the repository", mainModule, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// buildCommand builds one program of this repository, such as examples/memcache, and returns its path.
func (r *run) buildCommand(folder string) (string, error) { return r.build(".", folder) }

// build builds the program in a folder of a module of this repository, and returns its path.
func (r *run) build(module, folder string) (string, error) {
	if r.planning() {
		return folder, nil
	}
	root, err := moduleFolder(r.ctx)
	if err != nil {
		return "", err
	}
	file := filepath.Join(r.scratch, "built-"+strings.ReplaceAll(folder, "/", "-"))
	build := exec.CommandContext(r.ctx, "go", "build", "-C", filepath.Join(root, module), "-o", file, "./"+folder)
	build.Env = append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build ./%s: %w: %s", folder, err, lastLine(out))
	}
	return file, nil
}

// buildPublished builds a program as it is published, which is at the end of its module's
// path, and returns its path.
func (r *run) buildPublished(pkg, version string) (string, error) {
	build := exec.CommandContext(r.ctx, "go", "install", pkg+"@"+version)
	build.Env = append(os.Environ(), "GOBIN="+r.scratch, "GOWORK=off", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go install %s@%s: %w: %s", pkg, version, err, lastLine(out))
	}
	name := path.Base(pkg)
	if major.MatchString(name) {
		name = path.Base(path.Dir(pkg))
	}
	return filepath.Join(r.scratch, name), nil
}

// major is the end of a module's path that says which version it is of.
var major = regexp.MustCompile(`^v[0-9]+$`)
