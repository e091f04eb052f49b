package web_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"headcount"
	"headcount/internal/digest"
	"headcount/internal/shared"
	"headcount/layout"
)

// The models that the page is looked at with.
var models = []string{"llama-3-70b", "deepseek-v3", "gpt-oss-120b", "gemma-3-27b", "qwen3-next"}

// numbers are what the page's table says, a line a row.
func (p *tab) numbers() []string {
	p.Helper()
	return js[[]string](p, `[...document.querySelectorAll("#card-numbers tbody tr:not(.why)")].map((tr) => [...tr.cells].map((c) => c.textContent).join(" | "))`)
}

// logged is the engine's lines on the page.
func (p *tab) logged() string {
	p.Helper()
	return js[string](p, `document.getElementById("log").hidden ? "" : document.querySelector("#log > pre").textContent`)
}

// planned is what the library says of a request, as the page shows it.
func planned(t testing.TB, req headcount.Request) (rows []string, log string) {
	t.Helper()
	ctx := context.Background()
	r, err := headcount.Plan(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	whole := req
	whole.Layout, whole.GPU, whole.KVCacheMemory = layout.Layout{}, "", 0
	unsplit, err := headcount.Plan(ctx, whole)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range digest.Of(r, unsplit).Rows {
		rows = append(rows, strings.Join([]string{row.Name, row.PerRank, row.WholeModel, row.How}, " | "))
	}
	return rows, strings.Join(r.Log, "\n")
}

// same fails unless the page shows what the library says.
func (p *tab) same(req headcount.Request) {
	p.Helper()
	rows, log := planned(p, req)
	if got := p.numbers(); !slices.Equal(got, rows) {
		p.Errorf("%s TP %d: the page says\n%s\nthe library\n%s", req.Model, req.TP, strings.Join(got, "\n"), strings.Join(rows, "\n"))
	}
	if got := p.logged(); got != log {
		p.Errorf("%s TP %d: the page logs %q, the library %q", req.Model, req.TP, got, log)
	}
}

func TestChooseModelAndTP(t *testing.T) {
	p := open(t, wide, "")
	const h100, box = "h100-sxm-80gb", chromedp.ID("model")
	p.same(headcount.Request{Model: "llama-3-70b", GPU: h100, Layout: layout.Layout{TP: 8}}) // what is asked when nothing is
	for _, model := range models[1:] {
		p.do(chromedp.Click(box))
		p.wait(`document.getElementById("model").selectionEnd > document.getElementById("model").selectionStart`)
		p.do(chromedp.KeyEvent(model), chromedp.KeyEvent(kb.Enter))
		p.wait(fmt.Sprintf(`location.search.includes("model=%s")`, model))
		p.settle()
		for _, tp := range []int{4, 16, 8} {
			p.click(chromedp.CSS(fmt.Sprintf(`#tp input[value="%d"]`, tp)))
			p.same(headcount.Request{Model: model, GPU: h100, Layout: layout.Layout{TP: tp}})
		}
	}
}

// Every control changes the question, and the address holds all of it.
func TestEveryStateIsInTheAddress(t *testing.T) {
	p := open(t, wide, "?model=deepseek-v3&gpu=h200")
	p.click(`#engine input[value="sglang"]`)
	p.enter("dp", "4", "dp=4")
	p.enter("dcp", "2", "dcp=2")
	p.click("#dpa")
	p.click("#ep")
	p.enter("len", "32k", "len=32k")
	p.enter("pool", "40", "pool=40")
	p.choose("#kv", "bfloat16")
	p.wait(`location.search.includes("kv=bfloat16")`)
	p.settle()
	want := headcount.Request{Model: "deepseek-v3", Engine: "sglang", GPU: "h200", Layout: layout.Layout{TP: 8, DP: 4, DCP: 2, DPAttention: true, EP: true}}
	want.KVCacheDType, want.MaxModelLen, want.KVCacheMemory = "bfloat16", 32<<10, 40<<30
	p.same(want)
	p.click("#card-numbers .figure")
	p.wait(`location.search.includes("open=kv_per_token")`)
	address := js[string](p, `location.search`)

	q := open(t, wide, address)
	q.same(want)
	if js[bool](q, `document.querySelector("#why-kv_per_token").hidden`) {
		t.Error("a number that was open in the address is closed")
	}
	q.do(chromedp.NavigateBack())
	p.do(chromedp.NavigateBack())
	p.settle()
	if got := js[string](p, `document.getElementById("dcp").value`); got == "" {
		t.Error("the step back has no DCP")
	}
}

// drop lets go of a file over the page.
func (p *tab) drop(name, text string) {
	p.Helper()
	js[bool](p, fmt.Sprintf(`(() => {
		const files = new DataTransfer();
		files.items.add(new File([%q], %q, { type: "application/json" }));
		return document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: files, bubbles: true, cancelable: true }));
	})() || true`, text, name))
}

func TestDropConfig(t *testing.T) {
	const config = `{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 4,
		"hidden_size": 4096, "intermediate_size": 11008, "vocab_size": 32000, "max_position_embeddings": 4096, "torch_dtype": "bfloat16"}`
	p := open(t, wide, "?tp=2")
	p.drop("mine.json", config)
	p.wait(`location.hash.includes("config=")`)
	p.settle()
	want := headcount.Request{Config: json.RawMessage(config), GPU: "h100", Layout: layout.Layout{TP: 2}}
	p.same(want)
	if got := js[string](p, `document.getElementById("model").value`); got != "mine.json" {
		t.Errorf("the model is called %q", got)
	}
	q := open(t, wide, js[string](p, `location.search + location.hash`))
	q.same(want)

	// The largest that is taken, of a kind that packs badly.
	noise := make([]byte, 1_000_000)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range noise {
		noise[i] = "0123456789abcdef"[random.IntN(16)]
	}
	p.drop("large.json", strings.Replace(config, "{", fmt.Sprintf(`{"_note": "%s", `, noise), 1))
	p.wait(`document.getElementById("model").value === "large.json" && location.hash.length > 500000`)
	p.settle()
	p.same(want)

	p.drop("broken.json", `{"num_hidden_layers": `)
	p.wait(`!document.getElementById("problem").hidden`)
	if got := js[string](p, `document.getElementById("problem").textContent`); !strings.Contains(got, "broken.json: not JSON") {
		t.Errorf("a file that is not JSON: %q", got)
	}
}

// A layout that the engine refuses is shown with its reason and the way out.
func TestRefusal(t *testing.T) {
	p := open(t, narrow, "?model=llama-3-70b&tp=7")
	r, err := headcount.Plan(context.Background(), headcount.Request{Model: "llama-3-70b", Layout: layout.Layout{TP: 7}})
	if err != nil || r.Error == nil {
		t.Fatal(r, err)
	}
	got := js[string](p, `document.getElementById("problem").innerText`)
	for _, want := range []string{"vLLM refuses this", r.Error.Message, r.Error.Hint} {
		if !strings.Contains(got, want) {
			t.Errorf("the page says %q, want %q in it", got, want)
		}
	}
}

// What the server cannot read is said, and the last answer stays.
func TestUnusable(t *testing.T) {
	p := open(t, wide, "?model=llama-3-70b")
	before := p.logged()
	p.expect = "422" // the browser's own line on the answer
	p.enter("len", "many", "len=many")
	p.wait(`!document.getElementById("problem").hidden`)
	if got := js[string](p, `document.getElementById("problem").innerText`); !strings.Contains(got, "max_model_len") {
		t.Errorf("the page says %q", got)
	}
	if p.logged() != before {
		t.Error("the answer before it is gone")
	}
	js[bool](p, `(globalThis.fetch = () => Promise.reject(new TypeError("gone"))) && true`)
	p.click(`#tp input[value="16"]`)
	if got := js[string](p, `document.getElementById("problem").innerText`); !strings.Contains(got, "the server does not answer") {
		t.Errorf("without a server the page says %q", got)
	}
}

// Of many changes at once the last one is answered, and each is a step back.
func TestManyChanges(t *testing.T) {
	p := open(t, wide, "?model=llama-3-70b")
	js[bool](p, `[1, 2, 4, 16, 32, 64, 8, 16, 2, 4].forEach((n) => document.querySelector('#tp input[value="' + n + '"]').click()) || true`)
	p.wait(`location.search.includes("tp=4")`)
	p.settle()
	p.same(headcount.Request{Model: "llama-3-70b", GPU: "h100", Layout: layout.Layout{TP: 4}})
	p.do(chromedp.NavigateBack())
	p.wait(`document.querySelector('#tp input[value="2"]').checked`)
	p.settle()
	p.same(headcount.Request{Model: "llama-3-70b", GPU: "h100", Layout: layout.Layout{TP: 2}})
}

// From the address bar to an explained number, without a mouse.
func TestKeyboard(t *testing.T) {
	p := open(t, wide, "")
	press := func(keys ...string) {
		for _, k := range keys {
			p.do(chromedp.KeyEvent(k))
		}
	}
	at := func() string {
		return js[string](p, `document.activeElement.id || document.activeElement.value || document.activeElement.textContent`)
	}
	reach := func(what string, most int) {
		t.Helper()
		for range most {
			if at() == what {
				return
			}
			press(kb.Tab)
		}
		t.Fatalf("Tab does not reach %q in %d steps: at %q", what, most, at())
	}
	press(kb.Tab)
	if got := at(); got != "Skip to the report" {
		t.Errorf("the first stop is %q", got)
	}
	reach("model", 6)
	p.wait(`document.getElementById("model").selectionEnd > document.getElementById("model").selectionStart`)
	press("d", "e", "e", "p", "s", "e", "e", "k", "-", "v", "3", kb.ArrowDown)
	if got := js[string](p, `document.getElementById(document.getElementById("model").getAttribute("aria-activedescendant")).textContent`); !strings.Contains(got, "deepseek-v3") {
		t.Errorf("the first match is %q", got)
	}
	press(kb.Enter)
	p.wait(`location.search.includes("model=deepseek-v3")`)
	p.settle()
	reach("8", 8) // the TP that is on
	press(kb.ArrowRight)
	p.wait(`location.search.includes("tp=16")`)
	p.settle()
	reach("68.6 KiB", 40)
	if outline := js[string](p, `getComputedStyle(document.activeElement).outlineStyle`); outline != "solid" {
		t.Errorf("focus is not seen: outline %s", outline)
	}
	press(kb.Enter)
	if got := js[string](p, `document.querySelector("#why-kv_per_token").innerText`); !strings.Contains(got, "70,272 B a token") || !strings.Contains(got, "num_hidden_layers") {
		t.Errorf("the number explains itself as %q", got)
	}
}

// axe-core finds nothing: in both themes, at both widths, with everything open, refused,
// and on the other tab.
func TestAxe(t *testing.T) {
	f, err := os.Open("testdata/axe.min.js.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	axe, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{
		"?model=gpt-oss-120b&with=deepseek-v3&open=log&open=kv_per_token&open=kv_pool&open=decode_intensity&open=steps&open=table-strips&open=table-memory&open=table-capacity&open=table-layers",
		"?model=deepseek-v3&with=llama-3-70b",
		"?model=gemma-3-27b&gpu=",
		"?view=verify",
	} {
		p := open(t, narrow, query)
		if strings.Contains(query, "verify") {
			p.compareLog(fmt.Sprintf(logOf70B, "meta-llama/Meta-Llama-3-70B", "1,337,216", "326.47"))
		}
		js[bool](p, `document.getElementById("asked-fold").open = true`)
		js[bool](p, string(axe)+"; true")
		for _, s := range []screen{narrow, narrow.atNight(), wide, wide.atNight()} {
			p.show(s)
			for _, v := range js[[]string](p, `axe.run({ resultTypes: ["violations"] }).then((r) => r.violations.flatMap((v) => v.nodes.map((n) => v.id + ": " + v.help + ": " + n.html.slice(0, 160) + " " + n.failureSummary)))`) {
				t.Errorf("%s at %v: %s", query, s, v)
			}
		}
	}
}

// saved is the file that a button gives.
func (p *tab) saved(dir, label, name string) []byte {
	p.Helper()
	js[bool](p, fmt.Sprintf(`document.querySelector('[aria-label="%s"]').click() || true`, label))
	path := filepath.Join(dir, name)
	for range 100 {
		if data, err := os.ReadFile(path); err == nil && len(data) > 0 {
			return data
		}
		time.Sleep(50 * time.Millisecond)
	}
	p.Fatalf("%s gives no %s", label, name)
	return nil
}

func TestSave(t *testing.T) {
	p, dir := open(t, wide, "?model=llama-3-70b&tp=16"), t.TempDir()
	p.do(command(browser.SetDownloadBehavior, browser.SetDownloadBehaviorParams{Behavior: browser.SetDownloadBehaviorBehaviorAllow, DownloadPath: dir}))

	svg := p.saved(dir, "Save as SVG: strips", "headcount-strips.svg")
	if at := regexp.MustCompile(`var\(|class="card|<style|https?://(?:[^w]|w[^w])`).Find(svg); at != nil {
		t.Errorf("the SVG leans on the page: %s", at)
	}
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}

	drawn, err := png.Decode(bytes.NewReader(p.saved(dir, "Save as PNG: capacity", "headcount-capacity.png")))
	if err != nil {
		t.Fatal(err)
	}
	colours := map[any]bool{}
	for x := range drawn.Bounds().Dx() {
		colours[drawn.At(x, drawn.Bounds().Dy()/2)] = true
	}
	if len(colours) < 3 {
		t.Errorf("the PNG of %v shows nothing", drawn.Bounds())
	}

	rows, err := csv.NewReader(bytes.NewReader(p.saved(dir, "Save as CSV: strips", "headcount-strips.csv"))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	js[bool](p, `(navigator.clipboard.writeText = async (text) => { globalThis.copied = text; }) && document.querySelector('[aria-label="Copy the table: strips"]').click() || true`)
	p.wait(`globalThis.copied`)
	if got := js[string](p, `copied`); !strings.HasPrefix(got, "rank\tquery heads\tstores") || strings.Count(got, "\n") != 16 {
		t.Errorf("copied: %q", got)
	}
	// 16 ranks of TP 16 keep one of 8 heads each, so each head twice.
	if len(rows) != 1+16 || strings.Join(rows[4], ",") != "3,12 to 15,KV head 1,2,2,40960" {
		t.Errorf("CSV of %d lines: %v", len(rows), rows)
	}
	if rows, err = csv.NewReader(bytes.NewReader(p.saved(dir, "Save as CSV: numbers", "headcount-numbers.csv"))).ReadAll(); err != nil || rows[1][1] != "40 KiB" {
		t.Errorf("CSV of the numbers: %v, %v", rows, err)
	}
}

// A second model joins the pictures, is held fast with its layout, and goes.
func TestCompare(t *testing.T) {
	p := open(t, wide, "?model=llama-3-70b&pool=40")
	p.wait(`document.querySelectorAll("#card-capacity select option").length > 100`)
	p.choose("#card-capacity select", "deepseek-v3")
	p.wait(`location.search.includes("with=deepseek-v3")`)
	p.settle()
	label := func() string {
		return js[string](p, `document.querySelector("#card-capacity svg").getAttribute("aria-label")`)
	}
	if got := label(); !strings.Contains(got, "Llama-3-70B") || !strings.Contains(got, "DeepSeek-V3") {
		t.Errorf("the picture shows %q", got)
	}
	// 40 GiB a rank: a rank of GQA-8 passes the latent between TP 4 and 8.
	if got := js[string](p, `document.querySelector("#card-capacity .legend").innerText`); !strings.Contains(got, "TP 8") {
		t.Errorf("the crossover reads %q", got)
	}
	p.click("#card-capacity .chips .link")
	p.wait(`new URLSearchParams(location.search).getAll("with").length === 2`)
	p.settle()
	p.click(`#card-capacity .chip button`)
	p.wait(`new URLSearchParams(location.search).getAll("with").length === 1`)
}

// What vLLM prints at start: model, tokens, requests. 163.23 requests of 8,192 tokens are
// 1,337,216 tokens in blocks of 16.
const logOf70B = `INFO [core.py:93] Initializing a V1 LLM engine (v0.33.0) with config: model='%s', dtype=torch.bfloat16, max_seq_len=8192, tensor_parallel_size=8, pipeline_parallel_size=1, data_parallel_size=1, quantization=None, kv_cache_dtype=auto
INFO [kv_cache_utils.py:1305] GPU KV cache size: %s tokens
INFO [kv_cache_utils.py:1310] Maximum concurrency for 8,192 tokens per request: %sx
`

// compareLog pastes a log and reads the verdict.
func (p *tab) compareLog(log string) string {
	p.Helper()
	js[bool](p, fmt.Sprintf(`(() => { document.getElementById("verified").replaceChildren(); document.getElementById("log-text").value = %q; return true; })()`, log))
	p.do(chromedp.Click(chromedp.CSS("#verify-form .primary")))
	p.wait(`document.getElementById("verified").textContent !== ""`)
	return js[string](p, `document.getElementById("verified").innerText`)
}

func TestVerify(t *testing.T) {
	p := open(t, wide, "?view=verify")
	if got := p.compareLog(fmt.Sprintf(logOf70B, "meta-llama/Meta-Llama-3-70B", "1,337,216", "163.23")); !strings.Contains(got, "All agree") || !strings.Contains(got, "1,337,216") {
		t.Errorf("a log that agrees: %s", got)
	}
	if got := p.compareLog(fmt.Sprintf(logOf70B, "meta-llama/Meta-Llama-3-70B", "1,337,216", "326.47")); !strings.Contains(got, "differ") {
		t.Errorf("a log of half the requests: %s", got)
	}
	p.expect = "422"
	folder := fmt.Sprintf(logOf70B, "/models/mine", "1,337,216", "163.23")
	if got := p.compareLog(folder); !strings.Contains(got, "/models/mine") {
		t.Errorf("a log of a folder: %s", got)
	}
	p.do(chromedp.SendKeys(chromedp.ID("log-model"), "llama-3-70b"))
	if got := p.compareLog(folder); !strings.Contains(got, "All agree") {
		t.Errorf("the same, with the model named: %s", got)
	}
	js[bool](p, `(globalThis.fetch = async () => new Response("{}", { status: 404 })) && true`)
	if got := p.compareLog(folder); !strings.Contains(got, "headcount verify FILE") {
		t.Errorf("a server without it: %s", got)
	}
}

// Addresses that no page of ours wrote: said to be of no use, or shown as far as they are.
func TestHostileAddress(t *testing.T) {
	for query, want := range map[string]string{
		`?model=<img src=x onerror=alert(1)>`:                               "not in the catalogue",
		"?model=llama-3-70b&tp=abc&open=zzz&open=__proto__":                 "want a whole number",
		"?model=llama-3-70b&tp=1e99":                                        "tensor_parallel_size",
		"?model=llama-3-70b&tp=1024&pp=1024":                                "refuses",
		"?model=llama-3-70b&engine=foo&gpu=bar":                             "foo",
		"?model=llama-3-70b&with=nope":                                      "nope",
		"?model=llama-3-70b&pool=1e30":                                      "kv_cache_memory_bytes",
		"?view=nothing#config=garbage&name=x":                               "",
		"?model=llama-3-70b#config=eyJhIjo":                                 "",
		"?model=llama-3-70b&with=" + strings.Repeat("deepseek-v3&with=", 9): "",
	} {
		p := openExpecting(t, wide, strings.NewReplacer("<", "%3C", ">", "%3E", " ", "%20").Replace(query), "422")
		got := js[string](p, `document.getElementById("problem").hidden ? "" : document.getElementById("problem").innerText`)
		if !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: the page says %q, want %q in it", query, got, want)
		}
		if js[bool](p, `document.querySelector("img") !== null`) {
			t.Errorf("%s: became an element", query)
		}
	}
}

// A line of the comparison that cannot be planned is said, leaves the rest, and can go.
func TestUselessLine(t *testing.T) {
	p := openExpecting(t, wide, "?model=llama-3-70b&with=nope", "422")
	if got := js[string](p, `document.getElementById("problem").innerText`); !strings.Contains(got, "nope") {
		t.Errorf("the page says %q", got)
	}
	p.same(headcount.Request{Model: "llama-3-70b", GPU: "h100", Layout: layout.Layout{TP: 8}})
	p.click("#card-capacity .chip button")
	p.wait(`document.getElementById("problem").hidden && !location.search.includes("with")`)
}

// Each model at both widths and in both themes: nothing runs out of the page. With
// HEADCOUNT_UPDATE=1 the pictures of the documents are taken anew.
func TestScreens(t *testing.T) {
	questions := map[string]string{
		"llama-3-70b":  "?model=llama-3-70b&tp=8&with=deepseek-v3&pool=40",
		"deepseek-v3":  "?model=deepseek-v3&tp=8&gpu=h200&with=llama-3-70b",
		"gpt-oss-120b": "?model=gpt-oss-120b&tp=8",
		"gemma-3-27b":  "?model=gemma-3-27b&tp=8&pool=40",
		"qwen3-next":   "?model=qwen3-next&tp=4",
	}
	for _, model := range models {
		for _, s := range []screen{wide, narrow} {
			p := open(t, s, questions[model])
			for _, s := range []screen{s, s.atNight()} {
				p.show(s)
				if over := js[int](p, `document.documentElement.scrollWidth - innerWidth`); over > 0 {
					t.Errorf("%s at %v: %d pixels wider than the screen", model, s, over)
				}
				p.wait(`document.querySelectorAll(".plot svg").length === 6`)
				if os.Getenv("HEADCOUNT_UPDATE") == "1" && (!s.dark || model == models[0]) {
					p.picture(filepath.Join(shared.Root(), "docs", "images", fmt.Sprintf("page-%s-%v.png", model, s)))
				}
			}
		}
	}
}

// Between the two widths nothing runs out of its card, with all open; and nothing moves for
// those who asked for no motion.
func TestWidths(t *testing.T) {
	p := open(t, wide, "?model=gpt-oss-120b&with=deepseek-v3&open=log&open=kv_pool&open=decode_intensity&open=steps&open=table-strips&open=table-memory&open=table-capacity")
	if moving := js[int](p, `[...document.querySelectorAll("*")].filter((e) => getComputedStyle(e).transitionDuration !== "0s").length`); moving > 0 {
		t.Errorf("%d elements move", moving)
	}
	for _, width := range []int{360, 480, 700, 821, 1024, 1281, 1401, 1920, 2560} {
		p.show(screen{width: width, height: 900})
		p.wait(`[...document.querySelectorAll(".plot svg")].every((svg) => svg.getBoundingClientRect().width <= svg.parentElement.clientWidth + 1)`)
		for _, over := range js[[]string](p, `[...document.querySelectorAll("html, .card, .log, .notes, .question, .fields, .field")].filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.id || e.className || e.tagName)`) {
			t.Errorf("at %d: more than %s holds", width, over)
		}
	}
}

// picture takes the whole page, in a palette: it is a drawing, and documents carry many.
func (p *tab) picture(path string) {
	p.Helper()
	data, err := chromedp.Run(p.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		p.Fatal(err)
	}
	full, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		p.Fatal(err)
	}
	small := image.NewPaletted(full.Bounds(), commonest(full, 64))
	draw.Draw(small, full.Bounds(), full, image.Point{}, draw.Src)
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, small); err != nil {
		p.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		p.Fatal(err)
	}
	if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
		p.Fatal(err)
	}
}

// commonest are the n colours of an image that most pixels have.
func commonest(img image.Image, n int) color.Palette {
	count := map[color.Color]int{}
	for y := img.Bounds().Min.Y; y < img.Bounds().Max.Y; y++ {
		for x := img.Bounds().Min.X; x < img.Bounds().Max.X; x++ {
			count[img.At(x, y)]++
		}
	}
	colours := slices.SortedFunc(maps.Keys(count), func(a, b color.Color) int { return count[b] - count[a] })
	return colours[:min(n, len(colours))]
}

// From a click on a size until its answer is shown and painted.
func BenchmarkRedraw(b *testing.B) {
	p := open(b, wide, "?model=llama-3-70b&with=deepseek-v3")
	sizes := []int{4, 8, 16, 64}
	var times []float64
	for i := 0; b.Loop(); i++ {
		times = append(times, js[float64](p, fmt.Sprintf(`(async () => {
			const answer = document.getElementById("answer");
			const shown = new Promise((done) => {
				const seen = new MutationObserver(() => answer.getAttribute("aria-busy") === "false" && (seen.disconnect(), done()));
				seen.observe(answer, { attributes: true });
			});
			const start = performance.now();
			document.querySelector('#tp input[value="%d"]').click();
			await shown;
			await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
			return performance.now() - start;
		})()`, sizes[i%len(sizes)])))
		p.settle()
	}
	report(b, times)
}

// From asking for the page until something of it is painted, the browser's cache warm.
func BenchmarkFirstPaint(b *testing.B) {
	p := open(b, wide, "")
	var times []float64
	for b.Loop() {
		p.do(chromedp.Reload())
		p.wait(`performance.getEntriesByName("first-contentful-paint").length > 0`)
		times = append(times, js[float64](p, `performance.getEntriesByName("first-contentful-paint")[0].startTime`))
	}
	report(b, times)
}

func report(b *testing.B, times []float64) {
	slices.Sort(times)
	b.ReportMetric(times[0], "least-ms")
	b.ReportMetric(times[len(times)/2], "median-ms")
	b.ReportMetric(0, "ns/op")
}
