package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/report"
	"golang.org/x/sys/unix"
)

// environment is where the run takes place. What can't be found out is "unknown".
func environment(quick bool) report.Env {
	return report.Env{
		Time: time.Now().UTC().Format(time.RFC3339), Go: runtime.Version(),
		Kernel: kernelRelease(), CPU: cpuModel(), Cores: runtime.NumCPU(), Quick: quick,
	}
}

func kernelRelease() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(name.Release[:])
}

func cpuModel() string {
	data, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(data)) {
		// Arm kernels name no model, only the implementer's number.
		name, value, ok := strings.Cut(line, ":")
		switch strings.TrimSpace(name) {
		case "model name", "Model", "CPU implementer":
			if ok {
				return strings.TrimSpace(value)
			}
		}
	}
	return "unknown"
}

// commit is the revision of the working folder, with "-dirty" if it has changes.
func commit(ctx context.Context) string {
	hash, err := exec.CommandContext(ctx, "git", "rev-parse", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	changes, err := exec.CommandContext(ctx, "git", "status", "--porcelain").Output()
	if err != nil || len(bytes.TrimSpace(changes)) > 0 {
		return string(bytes.TrimSpace(hash)) + "-dirty"
	}
	return string(bytes.TrimSpace(hash))
}
