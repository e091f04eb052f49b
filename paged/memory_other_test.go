//go:build !linux

package paged

import "time"

func hugePages(n int) []byte { return make([]byte, n) }

func processorTime() time.Duration { return time.Duration(time.Now().UnixNano()) }
