// Package paged runs what package attn counts: a paged KV cache and decode attention over
// it, on the CPU, with the blocks, the ranks and the two code paths that engines have.
package paged
