package jobs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"headcount"
)

// Lines come back in order, whichever of the cores answers first; blank ones are passed over.
func TestRun(t *testing.T) {
	const n = 5 * linesPerBatch
	var in strings.Builder
	for i := range n {
		switch {
		case i%50 == 3:
			in.WriteString("\n")
		case i%50 == 7:
			fmt.Fprintln(&in, "nonsense")
		default:
			fmt.Fprintf(&in, "{\"id\":%d,\"model\":\"llama-3-8b\",\"tensor_parallel_size\":%d}\n", i, 1<<(i%4))
		}
	}
	var out bytes.Buffer
	if err := Run(context.Background(), &headcount.Planner{}, strings.NewReader(in.String()), &out); err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(&out)
	for i := range n {
		if i%50 == 3 {
			continue
		}
		var line struct {
			ID     *int
			Layout struct {
				TP int `json:"tensor_parallel_size"`
			}
			Error *struct{ Line int }
		}
		if err := dec.Decode(&line); err != nil {
			t.Fatal(err)
		}
		switch {
		case i%50 == 7:
			if line.Error == nil || line.Error.Line != i+1 {
				t.Errorf("line %d: %+v", i+1, line)
			}
		case line.ID == nil || *line.ID != i || line.Layout.TP != 1<<(i%4):
			t.Errorf("line %d: %+v", i+1, line)
		}
	}
	if dec.More() {
		t.Error("more answers than lines")
	}
}

// full is a reader's end that takes no more.
type full struct{}

var errFull = errors.New("full")

func (full) Write([]byte) (int, error) { return 0, errFull }

// endless is input without an end, until it is closed.
type endless struct{ closed chan bool }

func (e endless) Read(data []byte) (int, error) {
	select {
	case <-e.closed:
		return 0, io.EOF
	default:
		return copy(data, "{\"model\":\"llama-3-8b\"}\n"), nil
	}
}

// A reader that goes away, or a context that ends, ends the run and all that it started.
func TestRunEnds(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 20 {
		in := endless{make(chan bool)}
		if err := Run(context.Background(), &headcount.Planner{}, in, full{}); !errors.Is(err, errFull) {
			t.Fatal(err)
		}
		close(in.closed)

		in = endless{make(chan bool)}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- Run(ctx, &headcount.Planner{}, in, io.Discard) }()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		close(in.closed)
	}
	for wait := time.Millisecond; runtime.NumGoroutine() > before; wait *= 2 {
		if wait > 5*time.Second {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
		time.Sleep(wait)
	}
}

// A fault of the planner's ends its line, and not the stream.
func TestRunGoesOn(t *testing.T) {
	var out strings.Builder
	if err := Run(t.Context(), faulty{}, strings.NewReader("{\"model\":\"bad\"}\n{\"model\":\"good\"}\n"), &out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], `"code":"internal"`) || !strings.Contains(lines[0], `"line":1`) || strings.Contains(lines[1], "internal") {
		t.Errorf("%q", lines)
	}
}

type faulty struct{}

func (faulty) Plan(_ context.Context, req headcount.Request) (*headcount.Report, error) {
	if req.Model == "bad" {
		var r *headcount.Report
		r.ID = nil // as a mistake in a family would
	}
	return &headcount.Report{}, nil
}
