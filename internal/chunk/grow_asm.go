//go:build (amd64 || arm64) && !purego

package chunk

// grow makes the stack of the calling goroutine as large as chunks of the class are. Little of
// the stack may be in use.
func grow(class int) { growers[class]() }

var growers = [Classes]func(){
	grow4K, grow8K, grow16K, grow32K, grow64K, grow128K,
	grow256K, grow512K, grow1M, grow2M, grow4M, grow8M,
}

func grow4K()
func grow8K()
func grow16K()
func grow32K()
func grow64K()
func grow128K()
func grow256K()
func grow512K()
func grow1M()
func grow2M()
func grow4M()
func grow8M()
