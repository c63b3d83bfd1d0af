//go:build !race && !purego

package engine

const sysMembarrier = 324 // linux/amd64
