//go:build linux && giouring

package uring

import "github.com/pawelgaczynski/giouring"

// The constants of abi.go, by their names there.
const (
	SqeAsync         = giouring.SqeAsync
	SqeBufferSelect  = giouring.SqeBufferSelect
	SetupCQSize      = giouring.SetupCQSize
	SetupClamp       = giouring.SetupClamp
	SetupSubmitAll   = giouring.SetupSubmitAll
	SetupCoopTaskrun = giouring.SetupCoopTaskrun
	SetupTaskrunFlag = giouring.SetupTaskrunFlag
	OpNop            = giouring.OpNop
	OpReadv          = giouring.OpReadv
	OpFsync          = giouring.OpFsync
	OpPollAdd        = giouring.OpPollAdd
	OpTimeout        = giouring.OpTimeout
	OpFallocate      = giouring.OpFallocate
	OpClose          = giouring.OpClose
	OpStatx          = giouring.OpStatx
	OpRead           = giouring.OpRead
	OpWrite          = giouring.OpWrite
	OpOpenat2        = giouring.OpOpenat2
	OpRenameat       = giouring.OpRenameat
	OpUnlinkat       = giouring.OpUnlinkat
	OpMkdirat        = giouring.OpMkdirat
	AsyncCancelAll   = giouring.AsyncCancelAll
	AsyncCancelAny   = giouring.AsyncCancelAny
	CQEFBuffer       = giouring.CQEFBuffer
	CQEFMore         = giouring.CQEFMore
	CQEBufferShift   = giouring.CQEBufferShift
	FeatNoDrop       = giouring.FeatNoDrop
	FeatSubmitStable = giouring.FeatSubmitStable
	FeatFastPoll     = giouring.FeatFastPoll
	FeatExtArg       = giouring.FeatExtArg
)
