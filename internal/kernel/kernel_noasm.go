//go:build !amd64 || purego

package kernel

func assembly() []*implementation { return nil }
