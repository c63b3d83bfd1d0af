//go:build purego || !(amd64 || arm64)

package chunk

// grow does nothing here, where the size of a stack is not known and no chunk is linked.
func grow(class int) {}
