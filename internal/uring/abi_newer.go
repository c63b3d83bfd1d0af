//go:build linux

package uring

// Operations that are newer than giouring, with the Linux version that brought them.
const (
	OpReadMultishot  uint8 = 49 // 6.7
	OpWaitid         uint8 = 50 // 6.7
	OpFixedFdInstall uint8 = 54 // 6.8
	OpFtruncate      uint8 = 55 // 6.9
	OpBind           uint8 = 56 // 6.11
	OpListen         uint8 = 57 // 6.11
)

// RecvsendBundle takes or fills several buffers at once; in IoPrio. Linux 6.10.
const RecvsendBundle uint16 = 1 << 4
