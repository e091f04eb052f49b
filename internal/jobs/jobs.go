// Package jobs answers a stream of requests, a JSON object a line: one report a line, in
// order, on all cores.
package jobs

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"runtime"

	"headcount"
	"headcount/problem"
)

// A Planner answers requests: a [*headcount.Planner].
type Planner interface {
	Plan(context.Context, headcount.Request) (*headcount.Report, error)
}

// linesPerBatch is how many requests one worker takes at a time: enough that handing
// batches over costs little, few enough that an interactive stream is answered at once
// when it pauses.
const linesPerBatch = 64

// A batch is consecutive lines of the input, and later their reports.
type batch struct {
	first int // line number of the first line
	lines [][]byte
	long  []bool // the line exceeded the cap and is cut
	out   []byte
	done  chan struct{}
}

// Run answers every line of in. A line that is of no use gives an error object with its
// line number; the rest go on. If out has a Flush, it is called when no more is ready.
//
// When Run returns early, in must be closed before anything waits for it: a read may be
// under way.
func Run(ctx context.Context, p Planner, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	workers := runtime.GOMAXPROCS(0)
	todo, order := make(chan *batch, workers), make(chan *batch, 2*workers)
	for range workers {
		go func() {
			for b := range todo {
				answer(ctx, p, b)
				close(b.done)
			}
		}()
	}
	var readErr error
	go func() {
		defer close(todo)
		defer close(order)
		readErr = readBatches(ctx, in, func(b *batch) {
			for _, c := range []chan *batch{order, todo} {
				select {
				case c <- b:
				case <-ctx.Done():
				}
			}
		})
	}()
	w := bufio.NewWriterSize(out, 1<<16)
	for b := range order {
		select {
		case <-b.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		if _, err := w.Write(b.out); err != nil {
			return err
		}
		if len(order) == 0 { // nothing else is ready: let a reader at the other end go on
			if err := flush(w, out); err != nil {
				return err
			}
		}
	}
	return errors.Join(readErr, flush(w, out))
}

// flush passes on what w holds, and what out holds.
func flush(w *bufio.Writer, out io.Writer) error {
	if err := w.Flush(); err != nil {
		return err
	}
	if f, ok := out.(interface{ Flush() error }); ok {
		return f.Flush()
	}
	return nil
}

// readBatches cuts the input into batches. It sends a batch early when no more input is
// buffered.
func readBatches(ctx context.Context, in io.Reader, send func(*batch)) error {
	r := bufio.NewReaderSize(in, 1<<16)
	b := &batch{first: 1, done: make(chan struct{})}
	next := func() {
		if len(b.lines) > 0 {
			send(b)
			b = &batch{first: b.first + len(b.lines), done: make(chan struct{})}
		}
	}
	for ctx.Err() == nil {
		line, long, err := readLine(r)
		if err == nil || len(line) > 0 {
			b.lines, b.long = append(b.lines, line), append(b.long, long)
		}
		if err != nil {
			next()
			if err == io.EOF {
				return nil
			}
			return err
		}
		if len(b.lines) == linesPerBatch || r.Buffered() == 0 {
			next()
		}
	}
	return ctx.Err()
}

// readLine reads one line without its end. Of a line beyond the cap it keeps a part and
// skips the rest.
func readLine(r *bufio.Reader) (line []byte, long bool, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) <= headcount.MaxRequestBytes+2 {
			line = append(line, part...)
		} else {
			long = true
		}
		if err != bufio.ErrBufferFull {
			return bytes.TrimRight(line, "\r\n"), long, err
		}
	}
}

// answer plans a batch's lines.
func answer(ctx context.Context, p Planner, b *batch) {
	for i, line := range b.lines {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		b.out = append(b.out, answerLine(ctx, p, line, b.long[i], b.first+i)...)
		b.out = append(b.out, '\n')
	}
}

// answerLine is one line's report, or its error object.
func answerLine(ctx context.Context, planner Planner, line []byte, long bool, number int) []byte {
	req, err := headcount.ParseRequest(line)
	if long {
		err = problem.New(problem.Unreadable, "", nil, "the line exceeds the cap of %d bytes", headcount.MaxRequestBytes)
	}
	if err == nil {
		var data []byte
		if data, err = report(ctx, planner, req); err == nil {
			return data
		}
	}
	p, ok := errors.AsType[*problem.Error](err)
	if !ok {
		p = problem.New(problem.Unreadable, "", nil, "%s", err)
	}
	numbered := *p
	numbered.Line = number
	data, _ := json.Marshal(struct {
		SchemaVersion int             `json:"schema_version"`
		ID            json.RawMessage `json:"id,omitempty"`
		Error         *problem.Error  `json:"error"`
	}{headcount.SchemaVersion, req.ID, &numbered})
	return data
}

// report is a plan as JSON. That headcount itself fails is the line's misfortune, not that of
// those after it.
func report(ctx context.Context, planner Planner, req headcount.Request) (data []byte, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = problem.New(problem.Internal, "", nil, "headcount failed: %v", v).WithHint("a fault of ours: please report this line and what headcount version prints")
		}
	}()
	r, err := planner.Plan(ctx, req)
	if err != nil {
		return nil, err
	}
	return json.Marshal(r)
}
