//go:build !race && !purego

package task

const sysMembarrier = 324 // linux/amd64
