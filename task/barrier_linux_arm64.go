//go:build !race && !purego

package task

const sysMembarrier = 283 // linux/arm64
