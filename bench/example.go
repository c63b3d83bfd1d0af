package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// mainModule is the module that is measured.
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
