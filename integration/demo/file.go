//go:build linux

package main

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// The file that pods serve: far more than sockets and pipes on its way hold.
const (
	fileSize    = 100_000_000
	fileRequest = "file"
	fileTimeout = time.Minute
)

// file is the content of the file, the same in each run.
var file = sync.OnceValue(func() []byte {
	content := make([]byte, fileSize)
	_, _ = rand.NewChaCha8([32]byte{}).Read(content) // returns no error
	return content
})

// fileSum is the sha256 of the file.
var fileSum = sync.OnceValue(func() string { return fmt.Sprintf("%x", sha256.Sum256(file())) })
