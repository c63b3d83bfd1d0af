//go:build linux && giouring

package uring

import "github.com/pawelgaczynski/giouring"

// The constants of abi.go, by their names there.
const (
	SqeAsync                  = giouring.SqeAsync
	SqeBufferSelect           = giouring.SqeBufferSelect
	SetupCQSize               = giouring.SetupCQSize
	SetupClamp                = giouring.SetupClamp
	SetupRDisabled            = giouring.SetupRDisabled
	SetupSubmitAll            = giouring.SetupSubmitAll
	SetupCoopTaskrun          = giouring.SetupCoopTaskrun
	SetupTaskrunFlag          = giouring.SetupTaskrunFlag
	SetupSingleIssuer         = giouring.SetupSingleIssuer
	SetupDeferTaskrun         = giouring.SetupDeferTaskrun
	OpNop                     = giouring.OpNop
	OpReadv                   = giouring.OpReadv
	OpFsync                   = giouring.OpFsync
	OpPollAdd                 = giouring.OpPollAdd
	OpTimeout                 = giouring.OpTimeout
	OpAccept                  = giouring.OpAccept
	OpAsyncCancel             = giouring.OpAsyncCancel
	OpFallocate               = giouring.OpFallocate
	OpClose                   = giouring.OpClose
	OpStatx                   = giouring.OpStatx
	OpRead                    = giouring.OpRead
	OpWrite                   = giouring.OpWrite
	OpRecv                    = giouring.OpRecv
	OpOpenat2                 = giouring.OpOpenat2
	OpRenameat                = giouring.OpRenameat
	OpUnlinkat                = giouring.OpUnlinkat
	OpMkdirat                 = giouring.OpMkdirat
	PollAddMulti              = giouring.PollAddMulti
	AsyncCancelAll            = giouring.AsyncCancelAll
	AsyncCancelAny            = giouring.AsyncCancelAny
	RecvMultishot             = giouring.RecvMultishot
	CQEFBuffer                = giouring.CQEFBuffer
	CQEFMore                  = giouring.CQEFMore
	CQEBufferShift            = giouring.CQEBufferShift
	SQCQOverflow              = giouring.SQCQOverflow
	SQTaskrun                 = giouring.SQTaskrun
	EnterGetEvents            = giouring.EnterGetEvents
	EnterExtArg               = giouring.EnterExtArg
	EnterRegisteredRing       = giouring.EnterRegisteredRing
	FeatSingleMMap            = giouring.FeatSingleMMap
	FeatNoDrop                = giouring.FeatNoDrop
	FeatSubmitStable          = giouring.FeatSubmitStable
	FeatFastPoll              = giouring.FeatFastPoll
	FeatExtArg                = giouring.FeatExtArg
	FeatRegRegRing            = giouring.FeatRegRegRing
	RegisterEnableRings       = giouring.RegisterEnableRings
	RegisterRingFDs           = giouring.RegisterRingFDs
	UnregisterRingFDs         = giouring.UnregisterRingFDs
	RegisterPbufRing          = giouring.RegisterPbufRing
	UnregisterPbufRing        = giouring.UnregisterPbufRing
	RegisterUseRegisteredRing = giouring.RegisterUseRegisteredRing
	AcceptMultishot           = giouring.AcceptMultishot
)
