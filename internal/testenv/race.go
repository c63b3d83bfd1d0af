package testenv

import (
	"runtime/debug"
	"slices"
)

// Race reports whether the race detector is on: everything is slower then, pools (sync.Pool) drop what they are
// given by chance, and nothing is detached, see docs/native-waits.md.
var Race = func() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}()
