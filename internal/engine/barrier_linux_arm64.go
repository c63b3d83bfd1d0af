//go:build !race && !purego

package engine

const sysMembarrier = 283 // linux/arm64
