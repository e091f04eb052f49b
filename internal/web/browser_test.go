package web_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"headcount"
	"headcount/internal/server"
	"headcount/internal/shared"
	"headcount/internal/web"
)

// One server and one browser for all tests; each test has a tab.
var (
	base   string
	chrome context.Context
	start  = sync.OnceValue(startBrowser)
)

func TestMain(m *testing.M) {
	s := httptest.NewServer(server.New(server.Options{Planner: &headcount.Planner{}, Page: web.Handler(), Log: slog.New(slog.DiscardHandler), Local: true}))
	base = s.URL
	code := m.Run()
	if chrome != nil {
		chromedp.Cancel(chrome)
	}
	s.Close()
	os.Exit(code)
}

func startBrowser() error {
	var path string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "headless-shell"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		return exec.ErrNotFound
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.Flag("hide-scrollbars", true))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium has no sandbox for root
	}
	allocator, _ := chromedp.NewExecAllocator(context.Background(), options...)
	chrome, _ = chromedp.NewContext(allocator)
	return chromedp.Do(chrome)
}

// A tab is one page, watched: an error in its console, or a request to another host, fails
// the test.
type tab struct {
	testing.TB
	ctx context.Context

	mu     sync.Mutex
	faults []string
	expect string // what the console may say, "" for nothing
}

// A screen is what the page is shown on.
type screen struct {
	width, height int
	dark          bool
}

var (
	wide   = screen{width: 1600, height: 1000}
	narrow = screen{width: 360, height: 780}
)

func (s screen) scheme() string {
	if s.dark {
		return "dark"
	}
	return "light"
}

// atNight is the screen in the dark theme.
func (s screen) atNight() screen {
	s.dark = true
	return s
}

func (s screen) String() string { return fmt.Sprintf("%d-%s", s.width, s.scheme()) }

// open shows the page at a query, and waits for the answer.
func open(t testing.TB, s screen, query string) *tab {
	t.Helper()
	return openExpecting(t, s, query, "")
}

// openExpecting opens a page on which the console may say something.
func openExpecting(t testing.TB, s screen, query, expect string) *tab {
	t.Helper()
	if testing.Short() {
		t.Skip("a browser is not started in -short")
	}
	if err := start(); err != nil {
		shared.Skip(t, "browser", "no Chromium: "+err.Error())
	}
	p := &tab{TB: t, expect: expect}
	ctx, cancel := chromedp.NewContext(chrome, chromedp.WithListener(p.watch))
	p.ctx = ctx
	t.Cleanup(func() {
		cancel()
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, fault := range p.faults {
			t.Error(fault)
		}
	})
	p.do(
		command(network.Enable, network.EnableParams{}),
		command(emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}),
	)
	p.show(s)
	p.do(chromedp.Navigate(base + "/" + query))
	p.settle()
	p.wait(`document.querySelectorAll("#gpu option").length > 2`)
	return p
}

// show puts the page on another screen.
func (p *tab) show(s screen) {
	p.Helper()
	p.do(
		chromedp.EmulateViewport(int64(s.width), int64(s.height)),
		command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: s.scheme()},
			{Name: "prefers-reduced-motion", Value: "reduce"},
		}}),
	)
}

// command is an action of the browser's protocol.
func command[P, R any](c cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, c, params)
		return err
	})
}

func (p *tab) watch(event any) {
	fault := ""
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		d := e.ExceptionDetails
		fault = "exception: " + d.Text
		if d.Exception != nil {
			fault += " " + d.Exception.Description
		}
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			fault = fmt.Sprintf("console: %s", e.Args[0].Value)
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			fault = fmt.Sprintf("console: %s %s", e.Entry.Text, e.Entry.URL)
		}
	case *network.EventRequestWillBeSent:
		if u := e.Request.URL; !strings.HasPrefix(u, base) && !strings.HasPrefix(u, "blob:"+base) && !strings.HasPrefix(u, "data:") {
			fault = "request to another host: " + u
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if fault != "" && (p.expect == "" || !strings.Contains(fault, p.expect)) {
		p.faults = append(p.faults, fault)
	}
}

func (p *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	p.Helper()
	if err := chromedp.Do(p.ctx, actions...); err != nil {
		p.Fatal(err)
	}
}

// js is the value of an expression, a promise's when it is one.
func js[T any](p *tab, expression string) T {
	p.Helper()
	v, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.Fatalf("%.200s: %v", expression, err)
	}
	return v
}

// wait waits until an expression holds.
func (p *tab) wait(expression string) {
	p.Helper()
	for end := time.Now().Add(20 * time.Second); !js[bool](p, "Boolean("+expression+")"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			p.Fatalf("%s does not come to hold: %s", expression, js[string](p, `location.href + " " + document.getElementById("status").textContent`))
		}
	}
}

// settle waits until the page shows the answer to what was asked last.
func (p *tab) settle() {
	p.Helper()
	p.wait(`document.getElementById("answer")?.getAttribute("aria-busy") === "false" && !document.querySelector("[aria-busy=true]")`)
}

// click clicks what a selector finds first, and waits for the answer.
func (p *tab) click(selector chromedp.CSS) {
	p.Helper()
	p.do(chromedp.Click(selector))
	p.settle()
}

// enter types into a field in place of what it holds, and waits until the address says so.
func (p *tab) enter(id, text, address string) {
	p.Helper()
	js[bool](p, fmt.Sprintf(`(() => { const e = document.getElementById(%q); e.focus(); e.select(); return true; })()`, id))
	p.do(chromedp.KeyEvent(text))
	p.wait(fmt.Sprintf(`location.search.includes(%q)`, address))
	p.settle()
}

// choose takes an option of a list.
func (p *tab) choose(selector, value string) {
	p.Helper()
	js[bool](p, fmt.Sprintf(`(() => { const s = document.querySelector(%q); s.value = %q; return s.dispatchEvent(new Event("change", { bubbles: true })); })()`, selector, value))
}
