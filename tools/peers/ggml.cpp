// Times ggml's flash attention on a decode step of the shapes of `headcount bench`, TP 1.
// Caches take turns on more memory than the last-level cache holds; each time is the median.
#include <ggml.h>
#include <ggml-cpu.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

struct Case { const char *name; int heads, kv_heads, key, value, tokens, sequences; };

static const Case cases[] = {
    {"MHA", 64, 64, 128, 128, 2048, 1},   {"GQA-16", 64, 16, 128, 128, 2048, 4}, {"GQA-8", 64, 8, 128, 128, 2048, 8},
    {"MQA", 64, 1, 128, 128, 2048, 64},   {"MLA", 128, 1, 576, 512, 2048, 29},
};

static void fill(ggml_tensor *t) {
    size_t n = ggml_nelements(t);
    std::vector<float> x(1 << 16);
    for (size_t i = 0; i < x.size(); i++) x[i] = float((i * 2654435761u) >> 16 & 255) / 128 - 1;
    size_t size = ggml_type_size(t->type);
    for (size_t at = 0; at < n; at += x.size()) {
        size_t m = std::min(x.size(), n - at);
        char *to = (char *)t->data + at * size;
        if (t->type == GGML_TYPE_F32) memcpy(to, x.data(), m * size);
        else ggml_get_type_traits(t->type)->from_float_ref(x.data(), to, m);
    }
}

static void run(const Case &c, ggml_type type, int threads, size_t buffer) {
    bool latent = c.value < c.key; // the value is the beginning of the key
    size_t read = size_t(c.kv_heads) * (c.key + (latent ? 0 : c.value)) * ggml_type_size(type) * c.tokens * c.sequences;
    int copies = std::max<size_t>(1, buffer / read);
    ggml_init_params params = {copies * read + (512u << 20), nullptr, false};
    ggml_context *ctx = ggml_init(params);
    ggml_tensor *q = ggml_new_tensor_4d(ctx, GGML_TYPE_F32, c.key, 1, c.heads, c.sequences);
    fill(q);
    std::vector<ggml_cgraph *> graphs;
    for (int i = 0; i < copies; i++) {
        ggml_tensor *k = ggml_new_tensor_4d(ctx, type, c.key, c.tokens, c.kv_heads, c.sequences);
        fill(k);
        ggml_tensor *v;
        if (latent) {
            v = ggml_view_4d(ctx, k, c.value, c.tokens, c.kv_heads, c.sequences, k->nb[1], k->nb[2], k->nb[3], 0);
        } else {
            v = ggml_new_tensor_4d(ctx, type, c.value, c.tokens, c.kv_heads, c.sequences);
            fill(v);
        }
        ggml_cgraph *graph = ggml_new_graph(ctx);
        ggml_build_forward_expand(graph, ggml_flash_attn_ext(ctx, q, k, v, nullptr, 1 / std::sqrt(float(c.key)), 0, 0));
        graphs.push_back(graph);
    }
    ggml_cplan plan = ggml_graph_plan(graphs[0], threads, nullptr);
    std::vector<uint8_t> work(plan.work_size);
    plan.work_data = work.data();
    std::vector<double> times;
    for (int i = 0; i < 12; i++) {
        auto start = std::chrono::steady_clock::now();
        ggml_graph_compute(graphs[i % copies], &plan);
        times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    times.erase(times.begin());
    std::sort(times.begin(), times.end());
    double median = times[times.size() / 2];
    printf("%-7s %s  %7.2f ms  %6.2f GB/s\n", c.name, ggml_type_name(type), median * 1e3, read / median / 1e9);
    fflush(stdout);
    ggml_free(ctx);
}

int main() {
    for (const Case &c : cases)
        for (ggml_type type : {GGML_TYPE_F16, GGML_TYPE_BF16}) run(c, type, 2, size_t(960) << 20);
}
