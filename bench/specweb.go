package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// The tree of files and the requests of SPECweb99's static part: directories of 36 files
// in four classes of size, nine to a class.
var (
	classUnits   = [4]int64{102, 1024, 10_240, 102_400} // bytes; a class has 1 to 9 times as much
	classWeights = [4]float64{0.35, 0.50, 0.14, 0.01}
	fileWeights  = [9]float64{0.039, 0.059, 0.088, 0.178, 0.353, 0.118, 0.071, 0.050, 0.044}
)

const filesPerFolder = len(classUnits) * len(fileWeights)

// webTree is a tree with this many folders. File number n is file n%filesPerFolder of folder
// n/filesPerFolder.
type webTree struct {
	folders int
	byRank  []float64 // of folders: the share of the requests up to this one (Zipf)
	byFile  []float64 // of the files of a folder, likewise
	sizes   []int64   // of a tree of SURGE, whose byRank is of files; else nil
}

func newWebTree(folders int) *webTree { return newZipfTree(folders, 1) }

// newZipfTree is a tree of whose folders the one of rank n is asked for in proportion to n^-alpha.
func newZipfTree(folders int, alpha float64) *webTree {
	t := &webTree{folders: folders}
	sum := 0.0
	for i := range folders {
		sum += math.Pow(float64(i+1), -alpha)
		t.byRank = append(t.byRank, sum)
	}
	for i := range t.byRank {
		t.byRank[i] /= sum
	}
	at := 0.0
	for _, class := range classWeights {
		for _, file := range fileWeights {
			at += class * file
			t.byFile = append(t.byFile, at)
		}
	}
	return t
}

func webFileBytes(n int) int64 {
	i := n % filesPerFolder
	return classUnits[i/len(fileWeights)] * int64(i%len(fileWeights)+1)
}

func (t *webTree) files() int { return t.folders * filesPerFolder }

func (t *webTree) bytes() (sum int64) {
	for n := range t.files() {
		sum += t.size(n)
	}
	return sum
}

func (t *webTree) size(n int) int64 {
	if t.sizes != nil {
		return t.sizes[n]
	}
	return webFileBytes(n)
}

// path is a file's, below the root and of a URL.
func (t *webTree) path(n int) string {
	i := n % filesPerFolder
	return fmt.Sprintf("dir%05d/class%d_%d", n/filesPerFolder, i/len(fileWeights), i%len(fileWeights)+1)
}

// draw draws a file. Which folders are popular says nothing about where they are on disk.
func (t *webTree) draw(l *lot) int {
	const prime = 0x9e3779b1 // so that each rank has a folder of its own
	if t.sizes != nil {
		return int(uint64(search(t.byRank, l)) * prime % uint64(t.files()))
	}
	folder := int(uint64(search(t.byRank, l)) * prime % uint64(t.folders))
	return folder*filesPerFolder + search(t.byFile, l)
}

// search draws from a distribution given by its sums.
func search(sums []float64, l *lot) int {
	const grain = 1 << 30
	i, _ := slices.BinarySearch(sums, float64(l.below(grain))/grain)
	return min(i, len(sums)-1)
}

// write makes the tree below root, on the disk and not in the page cache.
func (t *webTree) write(ctx context.Context, root string) error {
	content := make([]byte, surgeMost)
	fillByLot(content, 9)
	for folder := range t.folders {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(t.path(folder*filesPerFolder))), 0o777); err != nil {
			return err
		}
		for n := folder * filesPerFolder; n < (folder+1)*filesPerFolder; n++ {
			if err := os.WriteFile(filepath.Join(root, t.path(n)), content[:t.size(n)], 0o666); err != nil {
				return err
			}
		}
	}
	dir, err := os.Open(root)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := unix.Syncfs(int(dir.Fd())); err != nil {
		return fmt.Errorf("syncfs: %w", err)
	}
	return t.uncache(root)
}

// uncache drops the files' pages from the page cache, no matter which process they are charged to.
func (t *webTree) uncache(root string) error {
	for n := range t.files() {
		if err := uncache(filepath.Join(root, t.path(n))); err != nil {
			return err
		}
	}
	return nil
}
