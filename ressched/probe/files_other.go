//go:build !linux

package probe

func sizeIsNumber(string) bool { return false }
