package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/proc"
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
	return cpuName(string(data))
}

// cpuName is the model of the first processor in /proc/cpuinfo, with its family and number: a
// hypervisor may hide all of the name but the maker.
func cpuName(info string) string {
	model, numbers := "unknown", ""
	for line := range strings.Lines(info) {
		// Arm kernels name no model, only the implementer's number.
		name, value, ok := strings.Cut(line, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		switch {
		case !ok && numbers != "": // the end of the first
			return model + " (" + numbers + ")"
		case name == "model name" || name == "Model" || name == "CPU implementer":
			model = value
		case name == "cpu family":
			numbers = "family " + value
		case name == "model" && numbers != "":
			numbers += ", model " + value
		}
	}
	return model
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

// watchMachine returns a function that says how much of the time of both cores other programs have had
// since then, in percent; less than 0 if it can't be known. Children count once they have ended.
func watchMachine() func() float64 {
	return watchUse(func() (used time.Duration, err error) {
		for _, core := range []int{serverCore, clientCore} {
			busy, err := proc.CoreBusy(core)
			if err != nil {
				return 0, err
			}
			used += busy
		}
		for _, whose := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
			var own unix.Rusage
			if err := unix.Getrusage(whose, &own); err != nil {
				return 0, err
			}
			used -= time.Duration(own.Utime.Nano() + own.Stime.Nano())
		}
		return used / 2, nil
	})
}

// watchUse returns a function that says how much of the time since then was used, in percent; -1 if it can't be known.
func watchUse(used func() (time.Duration, error)) func() float64 {
	began := time.Now()
	before, err := used()
	return func() float64 {
		now, later := used()
		if err != nil || later != nil {
			return -1
		}
		return 100 * max(0, now-before).Seconds() / time.Since(began).Seconds()
	}
}
