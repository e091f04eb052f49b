package headcount_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"headcount"
	"headcount/engine"
	"headcount/internal/corpus"
	"headcount/internal/shared"
	"headcount/layout"
	"headcount/model"
	"headcount/problem"
	"headcount/vram"
)

// People report KV-cache numbers that are wrong, that surprise, or that an engine refuses
// without saying enough. Here each such report is a question to the planner, with the right
// answer as arithmetic. The facts are those of public reports; where the answer that was
// worked out from a report is not what the engine itself does, the case says so and holds
// the engine's.

// A publicCase is one question of a report; a report may take several.
type publicCase struct {
	id    string // of the report
	asked string
	req   headcount.Request
	want  []check
}

// A check is one thing that the answer must say.
type check func(t *testing.T, req headcount.Request, r *headcount.Report)

func TestPublicCases(t *testing.T) {
	planner := headcount.Planner{Resolver: files{corpus.Load(t)}}
	for _, c := range publicCases() {
		t.Run(c.id+" "+c.asked, func(t *testing.T) {
			if len(c.want) == 0 {
				t.Fatal("asks without wanting anything")
			}
			r, err := planner.Plan(context.Background(), c.req)
			if err != nil && r.Error == nil {
				t.Fatal(err)
			}
			for _, want := range c.want {
				want(t, c.req, r)
			}
		})
	}
}

// elsewhere are reports that no plan answers, or not yet, with the reason.
var elsewhere = map[string]string{
	"B103": "DeepSeek-V4.1-Flash: vLLM 0.33 does not load its class, and the config names no family of ours",
	"B110": "GLM-5.3-Flash: no engine release that is planned knows its class",
	"B122": "GLM-5.3-Flash, and a proposal for another reservation than the engine's",
	"B114": "vllm-ascend: its rules are not known here",
	"B116": "vllm-gaudi: its rules are not known here",
	"B124": "slots that SGLang's EAGLE writes while it runs",
	"B128": "DFlash drafts of vLLM",
	"B145": "memory outside of the budget: graphs and workspaces beside a fraction of 0.98",
	"B149": "memory outside of the budget: NCCL and workspaces",
	"B151": "memory outside of the budget: graphs that were not profiled",
	"B172": "a split of layers that the user gives; the engine's own is planned",
	"B179": "profiling of images and videos", "B181": "profiling of images and videos",
	"B183": "profiling of images and videos", "B185": "profiling of images and videos",
	"B192": "MLX weights: sizes come from files",
	"B199": "a label of GB on GiB; package units prints GiB and its tests hold it",
	"B201": "a label of GB on GiB; package units prints GiB and its tests hold it",
	"B210": "block sizes of releases of 2024",
	"B212": "a Kubernetes chart", "B214": "a Kubernetes chart", "B216": "a Kubernetes chart", "B218": "a Kubernetes chart",
	"B219": "ollama's slots",
	"B231": "copying KV heads while a checkpoint is split",
	"B234": "a share of two printed rates, no model in it",
	"B236": "times measured on a device", "B238": "times measured on a device",
}

// Every public report is asked or says why not.
func TestPublicCasesAreComplete(t *testing.T) {
	asked := map[string]bool{}
	for _, c := range publicCases() {
		asked[c.id] = true
	}
	for id := range elsewhere {
		if asked[id] {
			t.Errorf("%s is asked, and listed as not asked", id)
		}
	}
	f, err := os.Open(filepath.Join(shared.Dir(t), "cases", "cases.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines, all := bufio.NewScanner(f), map[string]bool{}
	for lines.Scan() {
		var report struct{ ID string }
		if err := json.Unmarshal(lines.Bytes(), &report); err != nil {
			t.Fatal(err)
		}
		all[report.ID] = true
		if elsewhere[report.ID] == "" && !asked[report.ID] {
			t.Errorf("%s is not asked, and no reason is given", report.ID)
		}
	}
	for id := range asked {
		if !all[id] {
			t.Errorf("%s is no report", id)
		}
	}
}

func publicCases() []publicCase {
	return slices.Concat(legality, latents, contextSplits, shapes, hybrids, states, drafts, pools)
}

// Models as the reports state them.
var (
	llama33B    = decoder{layers: 60, hidden: 6656, heads: 52, kv: 52, ff: 17_920}
	llama2_13B  = decoder{layers: 40, hidden: 5120, heads: 40, kv: 40, ff: 13_824}
	qwenDist7B  = decoder{arch: "Qwen2ForCausalLM", kind: "qwen2", layers: 28, hidden: 3584, heads: 28, kv: 4, ff: 18_944, vocab: 152_064}
	qwen15_32B  = decoder{arch: "Qwen2ForCausalLM", kind: "qwen2", layers: 64, hidden: 5120, heads: 40, kv: 8, ff: 27_392, vocab: 152_064}
	phi3Medium  = decoder{arch: "Phi3ForCausalLM", kind: "phi3", layers: 40, hidden: 5120, heads: 40, kv: 10, ff: 17_920, vocab: 32_064}
	phi4        = decoder{arch: "Phi3ForCausalLM", kind: "phi3", layers: 40, hidden: 5120, heads: 40, kv: 10, ff: 17_920, vocab: 100_352}
	baichuan13B = decoder{arch: "BaichuanForCausalLM", kind: "baichuan", layers: 40, hidden: 5120, heads: 40, ff: 13_696, vocab: 125_696,
		more: `, "auto_map": {"AutoConfig": "configuration_baichuan.BaichuanConfig"}`}
	openLlama3B = decoder{layers: 26, hidden: 3200, heads: 32, kv: 32, ff: 8640}
	kanana2B    = decoder{layers: 32, hidden: 1792, heads: 24, kv: 8, ff: 8064, vocab: 128_256, more: `, "head_dim": 128`}
	qwenMoE     = func(expert int, more string) decoder {
		return decoder{arch: "Qwen3MoeForCausalLM", kind: "qwen3_moe", layers: 48, hidden: 2048, heads: 32, kv: 4, ff: 6144, vocab: 151_936,
			more: fmt.Sprintf(`, "head_dim": 128, "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": %d%s`, expert, more)}
	}
	fp8MoE = func(expert int) decoder {
		return qwenMoE(expert, `, "quantization_config": {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}`)
	}
	awqMoE = awq(qwenMoE(768, ""))
	latent = func(layers, heads, rank, rope int) decoder {
		return decoder{arch: "DeepseekV3ForCausalLM", kind: "deepseek_v3", layers: layers, hidden: 4096, heads: heads, kv: heads, ff: 8192,
			more: fmt.Sprintf(`, "first_k_dense_replace": %d, "kv_lora_rank": %d, "q_lora_rank": 1024, "qk_rope_head_dim": %d, "qk_nope_head_dim": 64, "v_head_dim": 128`, layers, rank, rope)}
	}
)

// Which tensor parallel sizes are legal. Heads are not all: the MLP's width, the rows of
// the embedding (a multiple of 64) and the blocks of quantised weights divide as well, and
// the reports' own lists forget them.
var legality = []publicCase{
	{"B001", "52 heads over 8 ranks", llama33B.at(tp(8)), []check{
		refused(problem.NotDivisible, "num_attention_heads", 52), legalTP(1, 2, 4), // 13 divides the heads, not 17,920
	}},
	{"B001", "two replicas of 4 ranks, or two stages, use 8 GPUs", llama33B.at(layout.Layout{TP: 4, PP: 2}), []check{kvHeads(13, 1)}},
	{"B003", "52 heads over 3 ranks", llama33B.at(tp(3)), []check{refused(problem.NotDivisible, "num_attention_heads", 52)}},
	{"B003", "three stages of 20 layers instead", llama33B.at(pp(3)), []check{perStage(20*2*52*128*bf16, 20*2*52*128*bf16, 20*2*52*128*bf16)}},
	{"B003", "13, the one odd size that divides the heads", llama33B.at(tp(13)), []check{legalTP(1, 2, 4)}}, // the report says legal; the engine asserts on the vocabulary
	{"B005", "40 heads over 3 ranks", llama2_13B.at(tp(3)), []check{
		refused(problem.NotDivisible, "num_attention_heads", 40), legalTP(1, 2, 4, 8), // not 5, 10, 20, 40: 13,824 = 2⁹ · 27
	}},
	{"B005", "64 heads over 5 ranks", ask("llama-2-70b", tp(5)), []check{
		refused(problem.NotDivisible, "num_attention_heads", 64), legalTP(1, 2, 4, 8, 16, 32, 64),
	}},
	{"B006", "28 heads over 8 ranks", qwenDist7B.at(tp(8)), []check{
		refused(problem.NotDivisible, "num_attention_heads", 28), legalTP(1, 2, 4), // 7 and 14: KV heads; 28: 18,944 = 2⁹ · 37
	}},
	{"B009", "DeepSeek-V4-Flash over 3 ranks, whole experts", ask("deepseek-v4-flash", layout.Layout{TP: 3, EP: true}), []check{
		refused(problem.NotDivisible, "num_attention_heads", 64), // the engine stops here, before the 256 experts
	}},
	{"B009", "DeepSeek-V4-Flash over any number", ask("deepseek-v4-flash", tp(1)), []check{legalTP(1, 2, 4, 8, 16, 32, 64)}},
	{"B009", "over 64, where a shared expert keeps whole blocks of 128 on each rank", ask("deepseek-v4-flash", tp(64)), []check{
		holds("one block of each projection and a byte of scale for each square of 128", func(r *headcount.Report) bool {
			w := r.Ranks[0].Weights
			return w != nil && w.MoEShared == 43*3*(128*4096+4096/128)
		}),
	}},
	{"B011", "40 heads, 8 KV heads, 6 ranks", qwen15_32B.at(tp(6)), []check{
		refused(problem.NotDivisible, "num_attention_heads", 40), legalTP(1, 2, 4, 8), // 40: 27,392 = 2⁸ · 107
	}},
	{"B011", "two ranks and three stages use 6 GPUs", qwen15_32B.at(layout.Layout{TP: 2, PP: 3}), []check{
		perStage(21*2*4*128*bf16, 22*2*4*128*bf16, 21*2*4*128*bf16),
	}},
	{"B013", "2 KV heads over 4 ranks", ask("chatglm3-6b", tp(4)), []check{kvHeads(1, 2)}},
	{"B013", "10 KV heads over 4 ranks", phi3Medium.at(tp(4)), []check{
		refused(problem.NotDivisible, "num_key_value_heads", 10), legalTP(1, 2), // 5 and more: 32,064 = 64 · 501
	}},
	{"B015", "10 KV heads over 4 ranks", phi4.at(tp(4)), []check{refused(problem.NotDivisible, "num_key_value_heads", 10)}},
	{"B017", "experts' attention over twice its KV heads", ask("Qwen/Qwen3-30B-A3B", tp(8)), []check{kvHeads(1, 2)}}, // Ling's config brings code, which no plan runs
	{"B017", "and over ranks that neither divide nor are a multiple: max(1, 4 / 6) would pass", decoder{layers: 4, hidden: 1536, heads: 12, kv: 4, ff: 1536, vocab: 32_256}.at(tp(6)), []check{
		refused(problem.NotDivisible, "num_key_value_heads", 4), legalTP(1, 2, 4, 12),
	}},
	{"B019", "4 KV heads over 8 ranks", ask("Qwen/Qwen3-VL-30B-A3B-Instruct", tp(8)), []check{kvHeads(1, 2)}}, // Transformers refuses, vLLM does not
	{"B021", "2 KV heads over 4 ranks", ask("Qwen/Qwen3.5-35B-A3B", tp(4)), []check{kvHeads(1, 2)}},
	{"B021", "2 KV heads over 4 ranks", ask("qwen3-next", tp(4)), []check{kvHeads(1, 2)}},
	{"B023", "8 KV heads over 32 devices", ask("llama-3-70b", tp(32)), []check{kvHeads(1, 4), perToken(2 * 80 * 1 * 128 * bf16)}},
	{"B024", "one KV head over two ranks: the second adds no room", in(10*gib, 0, ask("gemma-3-1b", tp(2))), []check{
		kvHeads(1, 2), asMuchAs(in(10*gib, 0, ask("gemma-3-1b", tp(1)))),
	}},
	{"B026", "2 KV heads over 8 ranks: no less than over 2", ask("Qwen/Qwen2.5-3B-Instruct", tp(8)), []check{kvHeads(1, 4), perToken(2 * 36 * 1 * 128 * bf16)}},
	{"B026", "over 2 ranks", ask("Qwen/Qwen2.5-3B-Instruct", tp(2)), []check{kvHeads(1, 1), perToken(2 * 36 * 1 * 128 * bf16)}},
	{"B032", "experts of 320 in blocks of 128, 80 on a rank of 4", fp8MoE(320).at(tp(4)), []check{
		refused(problem.NotDivisible, "moe_intermediate_size", 320), legalTP(1, 2), // the report says none: the engine refines blocks to 64 and 32, not to 16
	}},
	{"B034", "192 on a rank of 8: to 64", ask("MiniMaxAI/MiniMax-M2.7", tp(8)), []check{answered}}, // the report says illegal
	{"B036", "a shared expert of 512 in blocks of 128, 64 on a rank of 8", ask("Qwen/Qwen3-Next-80B-A3B-Instruct-FP8", tp(8)), []check{
		refused(problem.NotDivisible, "moe_intermediate_size", 512), legalTP(1, 2, 4), // of vLLM; what SGLang refuses while it builds a model is not planned
	}},
	{"B038", "AWQ experts of 768 in groups of 128, 192 on a rank of 4", awqMoE.at(tp(4)), []check{answered}}, // the engine takes them, unlike the report's
	{"B038", "96 on a rank of 8", awqMoE.at(tp(8)), []check{answered}},
	{"B093", "7 heads, 2 KV heads", decoder{layers: 28, hidden: 896, heads: 7, kv: 2, ff: 4864, more: `, "head_dim": 128`}.at(tp(1)), []check{unusable(problem.NotDivisible, "num_attention_heads")}},
	{"B096", "layers without attention have no cache", sglang(ask("nvidia/Llama-3_3-Nemotron-Super-49B-v1", tp(8))), []check{kvHeads(1, 1)}},
}

// Latents: whole on every rank.
var latents = []publicCase{
	{"B045", "DeepSeek-R1 over 8 ranks", ask("deepseek-r1", tp(8)), []check{perToken(61 * 576 * bf16), kvHeads(1, 8)}},
	{"B045", "split by context instead: 8 times the tokens", in(40*gib, 8192, ask("deepseek-r1", layout.Layout{TP: 8, DCP: 8})), []check{
		tokens(8 * (40 * gib / (16 * 70_272) * 16)), kvHeads(1, 1),
		holds("8,784 bytes a token", func(r *headcount.Report) bool { return r.KVCache.BytesPerToken == 61*576*bf16/8 }),
	}},
	{"B049", "a latent over 8 ranks holds what one rank does: replicas hold 8 times that", in(40*gib, 262_144, ask("deepseek-v4-flash", tp(8))), []check{
		asMuchAs(in(40*gib, 262_144, ask("deepseek-v4-flash", tp(1)))), noted("replicated"),
	}},
	{"B051", "8 attention ranks hold N each", sglang(in(40*gib, 0, ask("deepseek-ai/DeepSeek-V2-Chat", layout.Layout{TP: 8, DP: 8, DPAttention: true}))), []check{
		perToken(60 * 576 * bf16), asMuchAs(sglang(in(40*gib, 0, ask("deepseek-ai/DeepSeek-V2-Chat", tp(8))))), noted("per-attention-rank"),
	}},
	{"B176", "a report is of one attention rank, the server holds as many times that", sglang(in(40*gib, 0, ask("deepseek-v3", layout.Layout{TP: 8, DP: 4, DPAttention: true}))), []check{noted("per-attention-rank")}},
	{"B053", "36 layers of 256 + 64 over 2 ranks, a million tokens, 17.39 GiB", in((50_638+1)*16*36*320*bf16, 1<<20, func() headcount.Request {
		d := latent(36, 32, 256, 64)
		d.more += `, "max_position_embeddings": 1048576`
		return d.at(tp(2))
	}()), []check{refused(problem.DoesNotFit, "max_model_len", 1<<20), sized((1<<20)*36*320*bf16, 810_208)}}, // 22.5 GiB; 50,638 blocks
	{"B054", "an MLA layer at any size", ask("zai-org/GLM-5.1", tp(4)), []check{cell(model.Latent, 576*bf16)}},
	{"B054", "a GQA-8 layer over 2 ranks takes more than that", ask("llama-3-70b", tp(2)), []check{cell(model.Full, 2048/2*bf16)}},
	{"B054", "and over 4 ranks less", ask("llama-3-70b", tp(4)), []check{cell(model.Full, 2048/4*bf16)}},
	{"B057", "DeepSeek, a request of 4,096 + 1,024 tokens", in((5120/16+1)*16*70_272, 5120, ask("deepseek-v3", tp(8))), []check{perToken(70_272), requests((5120/16. + 1) / (5120 / 16.))}}, // 343 MiB, and the block that the engine keeps back
	{"B058", "DeepSeek-V3 at 65,536 tokens", ask("deepseek-v3", tp(1)), []check{
		holds("4.29 GiB", func(r *headcount.Report) bool {
			return math.Round(float64(r.KVCache.BytesPerToken)*65_536/gib*100) == 429
		}),
	}},
	{"B060", "one pool of 5,369.91 MiB", in(80_128*70_272, 0, ask("deepseek-r1", tp(8))), []check{refused(problem.DoesNotFit, "max_model_len", 163_840)}},
	{"B060", "one pool of 5,369.91 MiB, shorter requests", in(80_128*70_272, 8_000, ask("deepseek-r1", tp(8))), []check{tokens(80_128)}},
	{"B063", "DeepSeek-V3, the value to keep", ask("deepseek-v3", tp(8)), []check{perToken(70_272)}},
	{"B064", "a converted GQA that keeps its width", latent(28, 28, 960, 64).at(tp(1)), []check{perToken(28 * 1024 * bf16)}},
	{"B064", "and the GQA it was", qwenDist7B.at(tp(1)), []check{perToken(28 * 2 * 4 * 128 * bf16)}},
	{"B067", "DeepSeek-V3.1 at 163,840 tokens", ask("deepseek-v3", tp(1)), []check{
		holds("10.72 GiB", func(r *headcount.Report) bool {
			return math.Round(float64(r.KVCache.BytesPerToken)*163_840/gib*100) == 1072
		}),
	}},
	{"B161", "DeepSeek-Coder-V2 over 8 ranks", in(2368*983_040, 16_000, ask("deepseek-ai/DeepSeek-V2-Chat", tp(8))), []check{perToken(69_120), tokens(2368 * 983_040 / (16 * 69_120) * 16)}},
	{"B203", "GLM-5.2 in fp8 with its MTP layer", with(ask("zai-org/GLM-5.2", tp(8)), engine.Options{KVCacheDType: "fp8", MaxModelLen: 65_536, Speculative: &engine.Speculative{Method: "mtp", Tokens: 1}}), []check{
		perToken(79*656 + 22*132), kinds(map[model.Kind]int{model.Latent: 79, model.Indexer: 22}), cell(model.Latent, 512+16+64*bf16), cell(model.Indexer, 132),
	}},
}

// Decode context parallelism.
var contextSplits = []publicCase{
	{"B041", "4 KV heads over 4 ranks", ask("Qwen/Qwen3-235B-A22B", layout.Layout{TP: 4, DCP: 2}), []check{refused(problem.IllegalLayout, "decode_context_parallel_size", 2)}},
	{"B041", "4 KV heads over 8 ranks", ask("Qwen/Qwen3-235B-A22B", layout.Layout{TP: 8, DCP: 2}), []check{kvHeads(1, 1)}},
	{"B041", "a latent over 4 ranks, whatever num_key_value_heads says", ask("deepseek-v2-lite", layout.Layout{TP: 4, DCP: 4}), []check{kvHeads(1, 1)}},
	{"B043", "8 KV heads over 16 ranks", ask("llama-3-70b", layout.Layout{TP: 16, DCP: 4}), []check{
		refused(problem.IllegalLayout, "decode_context_parallel_size", 4), hinted("decode_context_parallel_size 2"),
	}},
	{"B043", "as many as there are copies", ask("llama-3-70b", layout.Layout{TP: 16, DCP: 2}), []check{kvHeads(1, 1)}},
	{"B239", "8 KV heads over 8 ranks", ask("zai-org/GLM-4.5-Base", layout.Layout{TP: 8, DCP: 2}), []check{refused(problem.IllegalLayout, "decode_context_parallel_size", 2)}},
	{"B239", "8 KV heads over 16 ranks", ask("zai-org/GLM-4.5-Base", layout.Layout{TP: 16, DCP: 2}), []check{kvHeads(1, 1)}},
}

// Where heads and widths come from.
var shapes = []publicCase{
	{"B040", "heads of 100", openLlama3B.at(tp(4)), []check{headDim(3200/32, "hidden_size / num_attention_heads"), perToken(2 * 26 * 8 * 100 * bf16)}},
	{"B068", "Qwen3-0.6B: 128, not 1024 / 16", ask("Qwen/Qwen3-0.6B", tp(1)), []check{
		headDim(128, "head_dim"), perToken(2 * 28 * 8 * 128 * bf16), // × 40,960 = 4.375 GiB
	}},
	{"B070", "no heads", decoder{layers: 28, hidden: 896, heads: 0, kv: 2, ff: 4864}.at(tp(1)), []check{unusable(problem.BadValue, "num_attention_heads")}},
	{"B072", "256 as given, not 3584 / 16", decoder{layers: 1, hidden: 3584, heads: 16, kv: 8, ff: 14_336, more: `, "head_dim": 256`}.at(tp(1)), []check{headDim(256, "head_dim"), perToken(2 * 8 * 256 * bf16)}},
	{"B074", "Gemma2-2B: 256, not 2304 / 8", ask("gemma-2-2b", tp(1)), []check{headDim(256, "head_dim"), cell(model.Full, 2*4*256*bf16)}},
	{"B076", "24 heads of 128 in a hidden size of 1792", kanana2B.at(tp(1)), []check{refused(problem.BadValue, "hidden_size", 1792)}}, // the report says fine, as 128 is given; Transformers 5 still refuses it
	{"B077", "Llama-3-8B has 1,024 + 1,024 elements a layer", ask("llama-3-8b", tp(1)), []check{cell(model.Full, (1024+1024)*bf16)}},
	{"B080", "dimensions that only the nested config has", ask("Qwen/Qwen3.5-27B", tp(1)), []check{
		from("layers", "text_config.num_hidden_layers"), from("query_heads", "text_config.num_attention_heads"), from("kv_heads", "text_config.num_key_value_heads"),
	}},
	{"B082", "no layers", decoder{layers: 0, hidden: 4096, heads: 32, kv: 8, ff: 11_008}.at(tp(1)), []check{unusable(problem.BadValue, "num_hidden_layers")}},
	{"B084", "n_kv_groups is no number of KV heads", decoder{layers: 32, hidden: 4096, heads: 32, ff: 11_008, more: `, "n_kv_groups": 4`}.at(tp(1)), []check{kvHeads(32, 1)}},
	{"B086", "Llama-3.1-8B", ask("llama-3.1-8b", tp(1)), []check{perToken(2 * 32 * 8 * 128 * bf16)}},
	{"B086", "Llama-3.1-70B", ask("llama-3.1-70b", tp(1)), []check{perToken(2 * 80 * 8 * 128 * bf16)}},
	{"B086", "Llama-3.1-405B: 8 KV heads, not 16", ask("llama-3.1-405b", tp(1)), []check{perToken(2 * 126 * 8 * 128 * bf16)}},
	{"B087", "n_layer, n_embd, n_head, multi_query", ask("bigcode/starcoder", tp(1)), []check{kvHeads(1, 1), perToken(2 * 40 * 1 * 128 * bf16)}},
	{"B088", "one KV head is on every shard", ask("bigcode/starcoder", tp(4)), []check{kvHeads(1, 4), perToken(20_480)}},
	{"B090", "Falcon-7B: multi_query", ask("falcon-7b", tp(1)), []check{kvHeads(1, 1)}},
	{"B090", "Falcon-40B: num_kv_heads of the new decoder", ask("falcon-40b", tp(1)), []check{kvHeads(8, 1)}},
	{"B090", "neither: as many as heads", headcount.Request{Config: json.RawMessage(`{"architectures": ["FalconForCausalLM"], "model_type": "falcon",
		"num_hidden_layers": 24, "hidden_size": 2048, "num_attention_heads": 32, "multi_query": false, "new_decoder_architecture": false, "alibi": false}`)}, []check{kvHeads(32, 1)}},
	{"B099", "keys of 192, values of 128", sglang(ask("XiaomiMiMo--MiMo-V2-Flash.json", tp(8))), []check{cell(model.Full, (192+128)*bf16), cell(model.Sliding, (192+128)*bf16)}},
	{"B166", "Baichuan2-13B over 2 ranks", sglang(baichuan13B.at(tp(2))), []check{perToken(2 * 40 * 20 * 128 * bf16)}},
	{"B221", "Qwen2.5-7B at 262,144 tokens: 14.0 GiB", qwenDist7B.at(tp(1)), []check{perToken(14 * gib / 262_144)}},
	{"B223", "Qwen2.5-7B, two slots of 8,192: 896 MiB", qwenDist7B.at(tp(1)), []check{perToken(896 << 20 / 16_384)}},
	{"B229", "Llama-2-13B from 40 KV heads", llama2_13B.at(tp(1)), []check{perToken(819_200)}},
	{"B229", "to 8", decoder{layers: 40, hidden: 5120, heads: 40, kv: 8, ff: 13_824}.at(tp(1)), []check{perToken(163_840)}},
	{"B232", "8 heads of 128: as many FLOP as bytes", with(headcount.Request{GPU: "rtx-5090", Config: decoder{layers: 1, hidden: 1024, heads: 8, kv: 8, ff: 4096}.config()}, engine.Options{KVCacheMemory: gib}), []check{
		holds("1 FLOP/byte", func(r *headcount.Report) bool {
			return r.Roofline.Layers[0].Intensity == 1 && r.Roofline.Layers[0].Bound == "bandwidth"
		}),
		holds("8 MiB at 2,048 tokens", func(r *headcount.Report) bool { return 2048*r.KVCache.BytesPerToken == 8<<20 }),
	}},
}

// Layers that differ: windows, latents, states, caches that are shared.
var hybrids = []publicCase{
	{"B065", "Gemma-3-27B", ask("gemma-3-27b", tp(1)), []check{
		headDim(128, "text_config.head_dim"), kinds(map[model.Kind]int{model.Full: 10, model.Sliding: 52}),
		cell(model.Full, 2*16*128*bf16), cell(model.Sliding, 2*16*128*bf16), // 10 × 131,072 × 8 KiB = 10.0 GiB, 52 × 1,024 × 8 KiB = 0.41 GiB
		perToken(10 * 2 * 16 * 128 * bf16), window(1024),
	}},
	{"B066", "Qwen3.5-27B", ask("Qwen/Qwen3.5-27B", tp(1)), []check{
		headDim(256, "text_config.head_dim"), perToken(16 * 2 * 4 * 256 * bf16), // × 262,144 = 16.0 GiB
	}},
	{"B082", "Gemma-4-12B: 8 global layers of one wide head", gemma4_12B, []check{
		kinds(map[model.Kind]int{model.Full: 8, model.Sliding: 40}), perToken(8 * 2 * 512 * bf16), // × 65,536 = 1.0 GiB
	}},
	{"B094", "OpenELM: the engine does not know it", headcount.Request{Config: json.RawMessage(`{"architectures": ["OpenELMForCausalLM"], "model_type": "openelm",
		"num_transformer_layers": 16, "model_dim": 1280, "head_dim": 64, "vocab_size": 32000, "max_context_length": 2048, "num_gqa_groups": 4, "ffn_dim_divisor": 256,
		"num_query_heads": [12, 12, 12, 12, 12, 16, 16, 16, 16, 16, 16, 16, 20, 20, 20, 20], "num_kv_heads": [3, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 5, 5, 5, 5],
		"ffn_multipliers": [0.5, 0.73, 0.97, 1.2, 1.43, 1.67, 1.9, 2.13, 2.37, 2.6, 2.83, 3.07, 3.3, 3.53, 3.77, 4.0]}`)}, []check{refused(problem.Unsupported, "model_type", "openelm")}},
	{"B098", "LFM2 has attention layers", ask("LiquidAI/LFM2-1.2B", tp(1)), []check{kinds(map[model.Kind]int{model.Full: 6, model.Recurrent: 10}), perToken(6 * 2 * 8 * 64 * bf16)}},
	{"B098", "Qwen3.6-27B at 65,536 tokens: 4 GiB", ask("Qwen/Qwen3.5-27B", tp(1)), []check{perToken(4 * gib / 65_536)}},
	{"B101", "Gemma-4-E2B: 15 of 35 layers have a cache of their own", ask("google/gemma-4-E2B", tp(1)), []check{kinds(map[model.Kind]int{model.Full: 3, model.Sliding: 12})}},
	{"B104", "Qwen3.5-27B: tokens are concurrency times length", in(40*gib, 32_768, ask("Qwen/Qwen3.5-27B", tp(1))), []check{consistent}}, // 0.19 printed blocks spread evenly over groups
	{"B106", "DeepSeek-V4-Flash: tokens are no rate", in(40*gib, 121_344, ask("deepseek-v4-flash", tp(2))), []check{
		consistent, holds("a request has a fixed part", func(r *headcount.Report) bool { return r.KVCache.FixedBytesPerRequest > 0 }),
	}},
	{"B108", "DeepSeek-V4-Flash: each pair agrees with itself", in(40*gib, 262_144, ask("deepseek-v4-flash", tp(1))), []check{consistent}},
	{"B130", "gemma-4-31B, requests of 128 tokens", in(10*gib, 128, ask("google/gemma-4-31B", tp(1))), []check{
		// Five groups of window layers take 128 / 16 blocks and one more, the full ones pages of 32: never 1,024 / 16.
		requests(10 * gib / (10 * 2 * 16 * 256 * bf16 * 16) / (5*(128/16+1) + 128/32.)),
	}},
	{"B133", "Gemma-4-12B, a token in a global layer and in a window layer", gemma4_12B, []check{cell(model.Full, 2*512*bf16), cell(model.Sliding, 2*2048*bf16)}},
	{"B135", "gemma3:4b", ask("gemma-3-4b", tp(1)), []check{
		kinds(map[model.Kind]int{model.Full: 5, model.Sliding: 29}), cell(model.Full, 4096), cell(model.Sliding, 4096), window(1024),
	}},
	{"B137", "gemma-3-27b: flat, K and V would be twice 126,976 elements", ask("gemma-3-27b", tp(1)), []check{
		holds("62 layers", func(r *headcount.Report) bool {
			var flat int64
			for _, run := range r.Ranks[0].Layers {
				flat += int64(run.Layers) * run.PageUnpadded / int64(run.BlockSize) / bf16
			}
			return flat == 2*126_976
		}),
	}},
	{"B139", "share of full layers: 10 of 62", ask("gemma-3-27b", tp(1)), []check{kinds(map[model.Kind]int{model.Full: 10, model.Sliding: 52})}},
	{"B139", "12 of 24", ask("gpt-oss-20b", tp(1)), []check{kinds(map[model.Kind]int{model.Full: 12, model.Sliding: 12})}},
	{"B139", "10 of 60", ask("google/gemma-4-31B", tp(1)), []check{kinds(map[model.Kind]int{model.Full: 10, model.Sliding: 50})}},
	{"B187", "Whisper keeps the encoder's tokens beside its own", headcount.Request{Config: whisperLarge}, []check{
		kinds(map[model.Kind]int{model.Full: 32, model.Cross: 32}), cell(model.Cross, 2*20*64*bf16), // 32 × 5,120 B × 1,500 = 234 MiB
	}},
	{"B187", "vLLM sets aside a batch of encoder tokens for each request, 8,192 beside 448 of its own", in(40*gib, 0, headcount.Request{Config: whisperLarge}), []check{
		requests(40 * gib / (32 * 16 * 2 * 20 * 64 * bf16) / (448/16 + 8192/16.)),
	}},
	{"B224", "gemma2:27b: 46 layers of 8 KiB a token, half of them windows", ask("gemma-2-27b", tp(1)), []check{
		kinds(map[model.Kind]int{model.Full: 23, model.Sliding: 23}), cell(model.Full, 2*16*128*bf16), cell(model.Sliding, 2*16*128*bf16), window(4096),
	}},
}

var gemma4_12B = headcount.Request{Config: json.RawMessage(`{"architectures": ["Gemma4ForCausalLM"], "model_type": "gemma4_text", "dtype": "bfloat16", "num_hidden_layers": 48,
	"hidden_size": 3840, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 256, "num_global_key_value_heads": 1, "global_head_dim": 512, "attention_k_eq_v": true,
	"intermediate_size": 15360, "vocab_size": 262144, "max_position_embeddings": 131072, "sliding_window": 1024, "num_kv_shared_layers": 0, "hidden_size_per_layer_input": 0,
	"tie_word_embeddings": true, "layer_types": [` + strings.Repeat(`"sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention", "full_attention", `, 7) +
	`"sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention", "full_attention"]}`)}

var whisperLarge = json.RawMessage(`{"architectures": ["WhisperForConditionalGeneration"], "model_type": "whisper", "torch_dtype": "float16", "d_model": 1280,
	"num_hidden_layers": 32, "decoder_layers": 32, "encoder_layers": 32, "decoder_attention_heads": 20, "encoder_attention_heads": 20,
	"decoder_ffn_dim": 5120, "encoder_ffn_dim": 5120, "num_mel_bins": 128, "vocab_size": 51866, "max_source_positions": 1500, "max_target_positions": 448}`)

// States of recurrent layers.
var states = []publicCase{
	{"B112", "Nemotron-Nano-9B-v2, states in bf16: a block of 42 × 16 tokens", with(headcount.Request{Config: nemotronNano9B}, engine.Options{MambaSSMCacheDType: "bfloat16"}), []check{
		state(((128*80+2*8*128)*3 + 128*80*128) * bf16), blockSize(672), // 2,695,168 B of state; 672 × 4,096 B a token is the next multiple of 16
	}},
	{"B112", "Nemotron-Nano-9B-v2, states in float32 as the engine keeps them", headcount.Request{Config: nemotronNano9B}, []check{
		state((128*80+2*8*128)*3*bf16 + 128*80*128*4), blockSize(1312),
	}},
	{"B118", "47 slots, 5 a request", sglang(in(40*gib, 0, with(ask("Qwen/Qwen3.5-27B", tp(1)), engine.Options{MaxMambaCacheSize: 47, MaxRunningRequests: 32}))), []check{
		holds("9 requests", func(r *headcount.Report) bool { return orZero(r.KVCache.MaxRunningRequests) == 47/5 }), logged("capped to 9"),
	}},
	{"B120", "states get r / (1 + r) of the pool", sglang(in(40*gib, 0, with(ask("Qwen/Qwen3.5-122B-A10B", tp(4)), engine.Options{MambaFullRatio: 0.9}))), []check{
		holds("47 %", func(r *headcount.Report) bool {
			bytes := map[string]float64{}
			for _, p := range r.KVCache.Pools {
				bytes[p.Name] += float64(p.KBytes + p.VBytes)
			}
			return math.Abs(bytes["state"]/(bytes["state"]+bytes["kv"])-0.9/1.9) < 0.002
		}),
	}},
	{"B141", "Qwen3.6-27B: 16 layers of attention, 48 of states", ask("Qwen/Qwen3.5-27B", tp(1)), []check{
		perToken(16 * 2 * 4 * 256 * bf16), state(48*128*128*4 + 3*(2*16*128+48*128)*bf16), // llama.cpp keeps the convolution in float32, and four of each: 598.5 MiB
	}},
}

var nemotronNano9B = json.RawMessage(`{"architectures": ["NemotronHForCausalLM"], "model_type": "nemotron_h", "torch_dtype": "bfloat16", "num_hidden_layers": 56, "hidden_size": 4480,
	"num_attention_heads": 40, "num_key_value_heads": 8, "head_dim": 128, "attention_head_dim": 128, "mamba_num_heads": 128, "mamba_head_dim": 80, "ssm_state_size": 128,
	"n_groups": 8, "conv_kernel": 4, "chunk_size": 128, "expand": 2, "intermediate_size": 15680, "vocab_size": 131072, "max_position_embeddings": 131072,
	"hybrid_override_pattern": "M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M-"}`)

// Draft models.
var drafts = []publicCase{
	{"B126", "a draft's layer is paid for by each token", sglang(in(10*gib, 0, eagle("yuhuili--EAGLE-LLaMA3-Instruct-8B.json", engine.Options{SpeculativeAlgorithm: "EAGLE"}))), []check{
		holds("33 layers", func(r *headcount.Report) bool { return orZero(r.KVCache.CellSize) == 33*2*8*128*bf16 }), tokens(10 * gib / (33 * 2 * 8 * 128 * bf16)),
	}},
	{"B206", "an EAGLE-3 draft on an FP8 cache", sglang(in(10*gib, 0, eagle("SafeAILab--EAGLE3-LLaMA3-8B-draft.json", engine.Options{SpeculativeAlgorithm: "EAGLE3", KVCacheDType: "fp8_e4m3"}))), []check{
		holds("33 layers, all FP8", func(r *headcount.Report) bool { return orZero(r.KVCache.CellSize) == 33*2*8*128*1 }),
	}},
}

// eagle is Llama-3-8B with a draft of one layer, three steps of four branches.
func eagle(draft string, opt engine.Options) headcount.Request {
	opt.SpeculativeDraftModel, opt.SpeculativeSteps, opt.SpeculativeTopK, opt.SpeculativeDraftTokens = draft, 3, 4, 16
	return with(ask("llama-3-8b", tp(1)), opt)
}

// What a pool holds.
var pools = []publicCase{
	{"B028", "bytes of a rank over bytes of a token on that rank", in(40*gib, 0, ask("llama-3-70b", tp(8))), []check{tokens(40 * gib / (327_680 / 8))}},
	{"B029", "Qwen3-32B over 4 ranks in blocks of 256", in(3258*256*65_536, 8192, with(ask("Qwen/Qwen3-32B", tp(4)), engine.Options{BlockSize: 256})), []check{perToken(2 * 64 * 2 * 128 * bf16), tokens(834_048)}},
	{"B029", "the same count of bytes at 4 times the size", in(814*256*262_144, 8192, with(ask("Qwen/Qwen3-32B", tp(1)), engine.Options{BlockSize: 256})), []check{tokens(208_384)}},
	{"B031", "GLM-4.5 over 8 ranks", in(40*gib, 8192, ask("zai-org/GLM-4.5-Base", tp(8))), []check{perToken(2 * 92 * 1 * 128 * bf16), tokens(40 * gib / (16 * 2 * 92 * 128 * bf16) * 16)}},
	{"B031", "over 16: the same, each head is held twice", in(40*gib, 8192, ask("zai-org/GLM-4.5-Base", tp(16))), []check{kvHeads(1, 2), tokens(40 * gib / (16 * 2 * 92 * 128 * bf16) * 16)}},
	{"B152", "1,478 blocks, 29,000 tokens", in(0, 29_000, with(ask("llama-3.1-8b", tp(1)), engine.Options{NumGPUBlocksOverride: 1478})), []check{
		refused(problem.DoesNotFit, "max_model_len", 29_000), sized(1813*16*131_072, (1478-1)*16), // 23,648 then; one block is kept back now
	}},
	{"B154", "229 blocks, 4,096 tokens", in(0, 4096, with(ask("llama-2-7b", tp(1)), engine.Options{NumGPUBlocksOverride: 229})), []check{
		refused(problem.DoesNotFit, "max_model_len", 4096), sized(4096*524_288, (229-1)*16), // 3,664 then
	}},
	{"B156", "378 blocks, 8,192 tokens", in(0, 8192, with(ask("llama-3-70b", tp(8)), engine.Options{NumGPUBlocksOverride: 378})), []check{
		refused(problem.DoesNotFit, "max_model_len", 8192), sized(8192*327_680/8, (378-1)*16), // 6,048 then
	}},
	{"B158", "a Mistral of 131,072 tokens on 24 GB", headcount.Request{Model: "mistral-7b", GPU: "rtx-4090", HFOverrides: json.RawMessage(`{"max_position_embeddings": 131072}`)}, []check{
		refused(problem.DoesNotFit, "max_model_len", 131_072),
		func(t *testing.T, _ headcount.Request, r *headcount.Report) {
			if e := r.Error; e == nil || e.NeededBytes != 16*gib || e.EstimatedMaxModelLen < 40_000 || e.EstimatedMaxModelLen > 60_000 {
				t.Errorf("%+v: want 16 GiB needed, at most about 60,000 tokens", e)
			}
		},
	}},
	{"B159", "49,152 bytes in fp8: 10.55 GiB", in(14_408*16*49_152, 100_000, with(qwen3_30B, engine.Options{KVCacheDType: "fp8"})), []check{perToken(49_152), tokens(230_528)}},
	{"B159", "5.59 GiB, 221,000 tokens", in((7630+1)*16*49_152, 221_000, with(qwen3_30B, engine.Options{KVCacheDType: "fp8"})), []check{
		refused(problem.DoesNotFit, "max_model_len", 221_000), sized(13_813*16*49_152, 122_080), // 10.12 GiB
	}},
	{"B162", "DeepSeek-R1-Distill-Qwen-14B over 2 ranks: 7.46 GiB on each", in(81_536*98_304, 8192, ask("deepseek-r1-distill-qwen-14b", tp(2))), []check{perToken(98_304), tokens(81_536)}},
	{"B164", "Qwen3-235B over 4 ranks, vLLM", in(178_880*48_128, 0, ask("Qwen/Qwen3-235B-A22B", tp(4))), []check{perToken(2 * 94 * 1 * 128 * bf16), tokens(178_880)}},
	{"B164", "Qwen3-235B over 4 ranks, SGLang: its GB are GiB", sglang(in(367_404*48_128, 0, ask("Qwen/Qwen3-235B-A22B", tp(4)))), []check{
		perToken(48_128), tokens(367_404), logged("#tokens: 367404, K size: 8.23 GB, V size: 8.23 GB"),
	}},
	{"B168", "Qwen3-8B, as long as fits", in((1267+1)*16*147_456, -1, ask("Qwen/Qwen3-8B", tp(1))), []check{longest(20_272)}},
	{"B168", "Qwen3-14B in two stages, as long as fits", in((3497+1)*16*81_920, -1, headcount.Request{Model: "Qwen/Qwen3-14B", Layout: pp(2), HFOverrides: json.RawMessage(`{"max_position_embeddings": 131072}`)}), []check{
		perStage(81_920, 81_920), longest(55_952),
	}},
	{"B169", "Llama-3.1-70B, one request of 131,072 tokens on one GPU", in(10*gib, 131_072, ask("llama-3.1-70b", tp(1))), []check{sized(40*gib, (10*gib/(16*327_680)-1)*16)}},
	{"B169", "the same in fp8", in(10*gib, 131_072, with(ask("llama-3.1-70b", tp(1)), engine.Options{KVCacheDType: "fp8"})), []check{sized(20*gib, (10*gib/(8*327_680)-1)*16)}},
	{"B170", "Qwen3-Coder-30B, 262,144 tokens in 3.18 GiB", in((2171+1)*16*98_304, 262_144, qwen3_30B), []check{sized(24*gib, 34_736)}},
	{"B170", "in two stages each keeps its own layers", in((2171+1)*16*98_304, 262_144, func() headcount.Request {
		r := qwen3_30B
		r.Layout.PP = 2
		return r
	}()), []check{perStage(49_152, 49_152), sized(12*gib, ((2171+1)*2-1)*16)}},
	{"B174", "a stage keeps the tokens of its own layers", ask("llama-3-70b", pp(2)), []check{perStage(163_840, 163_840)}},
	{"B178", "the smallest pool binds", in(10*gib, 8192, qwen15_32B.at(pp(3))), []check{
		perStage(21*2*8*128*bf16, 22*2*8*128*bf16, 21*2*8*128*bf16), tokens(10 * gib / (16 * 22 * 2 * 8 * 128 * bf16) * 16),
	}},
	{"B188", "experts over TP × DP ranks", ask("Qwen/Qwen3-30B-A3B", layout.Layout{TP: 4, DP: 2, EP: true}), []check{experts(48 * 128 * 3 * 2048 * 768 * bf16 / (4 * 2))}},
	{"B190", "whole experts", ask("Qwen/Qwen3-30B-A3B", layout.Layout{TP: 8, EP: true}), []check{experts(48 * 128 * 3 * 2048 * 768 * bf16 / 8)}},
	{"B190", "slices of experts: as many bytes", ask("Qwen/Qwen3-30B-A3B", tp(8)), []check{experts(48 * 128 * 3 * 2048 * 768 * bf16 / 8)}},
	{"B194", "Llama-3.1-8B in 4 bits has 8 B parameters or an unknown number, not 2 B", decoder{layers: 32, hidden: 4096, heads: 32, kv: 8, ff: 14_336, vocab: 128_256,
		more: `, "quantization_config": {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {"group_0": {"targets": ["Linear"],
			"weights": {"num_bits": 4, "type": "int", "group_size": 128, "strategy": "group", "symmetric": true}}}}`}.at(tp(1)), []check{
		holds("not what the packed tensors count", func(r *headcount.Report) bool { p := r.Model.Parameters; return p == nil || *p == 8_030_261_248 }),
	}},
	{"B196", "4-bit weights change no token of a pool of one size", in(10*gib, 8192, awq(mistral7B).at(tp(1))), []check{asMuchAs(in(10*gib, 8192, mistral7B.at(tp(1))))}},
	{"B198", "Mistral-7B, 53 GB", in(53_000_000_000, 8192, ask("mistral-7b", tp(1))), []check{tokens(53_000_000_000 / (16 * 131_072) * 16)}}, // about 404,000
	{"B208", "blocks of 8", with(ask("llama-3-8b", tp(1)), engine.Options{BlockSize: 8}), []check{refused(problem.Unsupported, "block_size", 8), hinted("a multiple of 16")}},
	{"B147", "captured graphs come out of the budget", headcount.Request{Model: "llama-3-70b", GPU: "h100", Layout: tp(8)}, []check{
		holds("a term of its own", func(r *headcount.Report) bool {
			return slices.ContainsFunc(r.Memory.Terms, func(term vram.Term) bool { return term.Name == "cuda_graphs" && term.P50 > 0 })
		}),
	}},
	{"B225", "SGLang: the weights alone exceed the fraction", sglang(with(ask("mistral-7b", tp(1)), engine.Options{MemoryBeginGiB: 23.4, MemoryEndGiB: 9.2, MemFractionStatic: 0.5})), []check{
		func(t *testing.T, _ headcount.Request, r *headcount.Report) {
			if e := r.Error; e == nil || e.Code != problem.DoesNotFit || !strings.Contains(e.Message+e.Hint, "--mem-fraction-static") {
				t.Errorf("%v, want a refusal that says to raise --mem-fraction-static", e)
			}
		},
	}},
	{"B227", "SGLang takes the smaller of both limits", sglang(in(40*gib, 0, with(ask("llama-3-8b", tp(1)), engine.Options{MaxTotalTokens: 100_000}))), []check{tokens(100_000)}},
	{"B046", "DeepSeek-V3.2 split by context: the indexer's keys stay whole", sglang(in(40*gib, 0, ask("deepseek-ai/DeepSeek-V3.2", layout.Layout{TP: 8, DCP: 2}))), []check{
		holds("(m + i) / (m / 2 + i) times the tokens", func(r *headcount.Report) bool {
			const m, i = 576. * bf16, 132. // bytes of a latent and of its index key
			return math.Abs(float64(*r.KVCache.Tokens)/(40*gib/(61*(m+i)))-(m+i)/(m/2+i)) < 0.001
		}),
	}},
}

var mistral7B = decoder{arch: "MistralForCausalLM", kind: "mistral", layers: 32, hidden: 4096, heads: 32, kv: 8, ff: 14_336}

func awq(d decoder) decoder {
	d.more += `, "quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": true, "version": "gemm"}`
	return d
}

// qwen3_30B has 48 layers of 4 KV heads × 128, as its Coder has.
var qwen3_30B = headcount.Request{Model: "Qwen/Qwen3-30B-A3B", HFOverrides: json.RawMessage(`{"max_position_embeddings": 262144}`)}
