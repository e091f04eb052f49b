package gguf

// A block is how a tensor type packs elements: so many in a block of so many bytes. Blocks
// lie along the innermost dimension, which must be a whole number of them.
type block struct {
	name     string
	elements int64
	bytes    int64
}

// superblock is the elements of a block of the K and I kinds (ggml-common.h, QK_K).
const superblock = 256

// types are the tensor types by their number in the file (ggml.h, enum ggml_type; sizes of
// a block: ggml-common.h). Numbers that are not here were taken back by the format, or are
// newer than this table.
var types = map[uint32]block{
	0:  {"F32", 1, 4},
	1:  {"F16", 1, 2},
	2:  {"Q4_0", 32, 2 + 32/2},
	3:  {"Q4_1", 32, 2 + 2 + 32/2},
	6:  {"Q5_0", 32, 2 + 32/8 + 32/2},
	7:  {"Q5_1", 32, 2 + 2 + 32/8 + 32/2},
	8:  {"Q8_0", 32, 2 + 32},
	9:  {"Q8_1", 32, 4 + 4 + 32},
	10: {"Q2_K", superblock, 2 + 2 + superblock/16 + superblock/4},
	11: {"Q3_K", superblock, 2 + superblock/4 + superblock/8 + 12},
	12: {"Q4_K", superblock, 2 + 2 + superblock/2 + 12},
	13: {"Q5_K", superblock, 2 + 2 + superblock/2 + superblock/8 + 12},
	14: {"Q6_K", superblock, 2 + superblock/2 + superblock/4 + superblock/16},
	15: {"Q8_K", superblock, 4 + superblock + superblock/8},
	16: {"IQ2_XXS", superblock, 2 + superblock/4},
	17: {"IQ2_XS", superblock, 2 + superblock/4 + superblock/32},
	18: {"IQ3_XXS", superblock, 2 + superblock/4 + superblock/8},
	19: {"IQ1_S", superblock, 2 + superblock/8 + superblock/16},
	20: {"IQ4_NL", 32, 2 + 32/2},
	21: {"IQ3_S", superblock, 2 + superblock/4 + superblock/8 + superblock/32 + 4},
	22: {"IQ2_S", superblock, 2 + superblock/4 + superblock/16},
	23: {"IQ4_XS", superblock, 2 + 2 + superblock/2 + superblock/64},
	24: {"I8", 1, 1},
	25: {"I16", 1, 2},
	26: {"I32", 1, 4},
	27: {"I64", 1, 8},
	28: {"F64", 1, 8},
	29: {"IQ1_M", superblock, superblock/8 + superblock/16 + superblock/32},
	30: {"BF16", 1, 2},
	34: {"TQ1_0", superblock, 2 + 4*13},
	35: {"TQ2_0", superblock, 2 + superblock/4},
	39: {"MXFP4", 32, 1 + 32/2},
	40: {"NVFP4", 64, 4 + 64/2},
	41: {"Q1_0", 128, 2 + 128/8},
}
