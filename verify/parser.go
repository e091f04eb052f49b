package verify

import (
	"bytes"
	"encoding/json"
	"io"
	"regexp"
	"slices"
	"strings"
)

// maxLine bounds a line, in bytes: a longer one is skipped. The longest that engines write,
// their whole configuration, are some 20 KiB.
const maxLine = 256 << 10

// maxStarts bounds the starts that are kept of one log; of more, the last ones.
const maxStarts = 256

// A Parser reads a log as it comes: write to it, and ask at any time for what it has seen.
// It keeps facts and no text, so that a log of any size takes little memory. The zero
// Parser is ready.
type Parser struct {
	Source string // goes into the Observations

	carry []byte // a line that has begun
	long  bool   // the rest of a line that is too long
	line  int64  // lines that have ended

	starts  []*Observation
	seen    map[string]bool // which process has announced the current start, and how
	skipped int64
}

// Read reads a whole log.
func Read(r io.Reader, source string) (*Parser, error) {
	p := &Parser{Source: source}
	_, err := io.CopyBuffer(struct{ io.Writer }{p}, struct{ io.Reader }{r}, make([]byte, maxLine))
	p.Close()
	return p, err
}

// Starts are the starts that the log has shown so far, in order.
func (p *Parser) Starts() []*Observation { return p.starts }

// Told are the starts that came as far as to size a cache, or were refused.
func (p *Parser) Told() []*Observation {
	return slices.DeleteFunc(slices.Clone(p.Starts()), func(o *Observation) bool { return !o.Started && o.Refusal == nil })
}

// Lines is how many lines were read; Skipped how many of them were of no use: longer than
// any that an engine writes, or not text.
func (p *Parser) Lines() int64 { return p.line }

// Skipped is the number of lines that were not read.
func (p *Parser) Skipped() int64 { return p.skipped }

// Write reads the next part of a log. It never fails.
func (p *Parser) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		piece := b[:min(len(b), maxLine)]
		b = b[len(piece):]
		p.piece(piece)
	}
	return n, nil
}

// Close reads a last line that has no end.
func (p *Parser) Close() error {
	if len(p.carry) > 0 || p.long {
		p.piece([]byte{'\n'})
	}
	return nil
}

// piece reads a part of at most maxLine bytes.
func (p *Parser) piece(b []byte) {
	if len(p.carry) > 0 || p.long {
		end := bytes.IndexByte(b, '\n') + 1
		if end == 0 {
			p.keep(b)
			return
		}
		p.keep(b[:end])
		if p.long {
			p.skipped++
			p.line++
		} else {
			p.lines(p.carry)
		}
		p.carry, p.long = p.carry[:0], false
		b = b[end:]
	}
	whole := bytes.LastIndexByte(b, '\n') + 1
	p.lines(b[:whole])
	p.keep(b[whole:])
}

// keep adds to the line that has begun, or gives it up for too long.
func (p *Parser) keep(b []byte) {
	if p.long || len(p.carry)+len(b) > maxLine {
		p.carry, p.long = p.carry[:0], true
		return
	}
	p.carry = append(p.carry, b...)
}

// lines reads whole lines.
func (p *Parser) lines(b []byte) {
	if bytes.IndexByte(b, 0) >= 0 {
		p.binary(b)
		return
	}
	from, number := 0, p.line // line number holds for from
	wordings().each(b, func(w *wording, at int) {
		start := bytes.LastIndexByte(b[:at], '\n') + 1
		number += int64(bytes.Count(b[from:start], newline))
		from = start
		end := at + bytes.IndexByte(b[at:], '\n')
		p.match(w, b[start:end], number+1)
	})
	p.line += int64(bytes.Count(b, newline))
}

var newline = []byte{'\n'}

// binary reads lines some of which are not text.
func (p *Parser) binary(b []byte) {
	for line := range bytes.Lines(b) {
		if bytes.IndexByte(line, 0) >= 0 {
			p.skipped++
			p.line++
		} else {
			p.lines(line)
		}
	}
}

// match reads a line that holds a wording.
func (p *Parser) match(w *wording, raw []byte, number int64) {
	text := unwrap(string(raw))
	before, after, found := strings.Cut(text, w.anchor)
	if !found {
		return
	}
	l := line{parser: p, number: number, engine: w.engine, before: before, after: after}
	l.process, l.rank = speaker(before)
	w.read(&l)
}

// escapes are a terminal's colours.
var escapes = regexp.MustCompile("\x1b\\[[0-9;]*[A-Za-z]")

// unwrap takes off what carries a line: colours, and the JSON object of a log collector.
func unwrap(text string) string {
	if strings.IndexByte(text, 0x1b) >= 0 {
		text = escapes.ReplaceAllString(text, "")
	}
	if at := strings.IndexByte(text, '{'); at >= 0 && strings.TrimSpace(text[:at]) == "" {
		var record map[string]any
		if json.Unmarshal([]byte(text), &record) == nil {
			for _, key := range [...]string{"log", "message", "msg", "MESSAGE", "textPayload", "body", "line", "text"} {
				if s, ok := record[key].(string); ok {
					return unwrap(strings.TrimSpace(s))
				}
			}
		}
	}
	return text
}

// A line is one that a wording was found in.
type line struct {
	parser  *Parser
	number  int64
	engine  string
	process string // who writes it, without its process id: "EngineCore_DP0"
	rank    string // "DP0", "PP1 TP0"

	before, after string // the wording
}

var (
	// "(EngineCore_DP0 pid=17447)", "(VllmWorker rank=1 pid=20)", "(RayWorkerWrapper pid=12, ip=10.0.0.2)"
	processName = regexp.MustCompile(`\((\w+)(?: rank=(\d+))?(?: pid=(\d+))(?:, ip=([\w.:]+))?\)`)
	// SGLang's "[2025-12-01 10:00:00 DP0 TP3 EP3]"
	bracketRank = regexp.MustCompile(`\[\d{4}-\d\d-\d\d[ T][\d:,.]+((?: [A-Z]{2,4}\d+)+)\]`)
	rankPart    = regexp.MustCompile(`(?:^|_| )((?:DP|PP|TP|PCP)\d+)`)
)

// speaker reads who writes a line from what stands before the wording.
func speaker(before string) (process, rank string) {
	if m := processName.FindStringSubmatch(before); m != nil {
		process = m[1]
		switch parts := rankPart.FindAllStringSubmatch(process, -1); {
		case len(parts) > 0:
			rank = joined(parts)
		case m[2] != "":
			process, rank = process+m[2], "TP"+m[2]
		case strings.Contains(process, "Worker") && process != "Worker":
			process, rank = process+m[3], "worker "+strings.TrimSpace(m[4]+" "+m[3]) // Ray's and V0's have no number
		}
		return process, rank
	}
	if m := bracketRank.FindStringSubmatch(before); m != nil {
		return strings.TrimSpace(m[1]), joined(rankPart.FindAllStringSubmatch(m[1], -1))
	}
	return "", ""
}

func joined(parts [][]string) string {
	names := make([]string, len(parts))
	for i, part := range parts {
		names[i] = part[1]
	}
	return strings.Join(names, " ")
}

// start is the Observation that the line belongs to.
func (l *line) start() *Observation {
	p := l.parser
	if n := len(p.starts); n > 0 {
		if o := p.starts[n-1]; o.Engine == l.engine || l.engine == "" {
			return o
		}
	}
	if l.engine == "" {
		return &Observation{} // nothing has started that this could belong to
	}
	return p.begin(l.engine)
}

// begin adds a start.
func (p *Parser) begin(engine string) *Observation {
	if len(p.starts) == maxStarts {
		p.starts = p.starts[1:]
	}
	o := &Observation{Source: p.Source, Engine: engine}
	p.starts = append(p.starts, o)
	p.seen = map[string]bool{}
	return o
}

// announce is the Observation of a line that an engine writes once a start: said again by
// the same process, it is another start.
func (l *line) announce(what string) *Observation {
	key := what + " " + l.process
	if o := l.start(); !l.parser.seen[key] && len(l.parser.seen) < maxFacts {
		l.parser.seen[key] = true
		return o
	}
	o := l.parser.begin(l.engine)
	l.parser.seen[key] = true
	return o
}

// set keeps a fact of this line's rank.
func (l *line) set(name string, value any) {
	l.start().Set(Fact{Name: name, Rank: l.rank, Value: value, Line: l.number})
}

// option keeps a fact that holds for all ranks.
func (l *line) option(name string, value any) {
	l.start().Set(Fact{Name: name, Value: value, Line: l.number})
}

// whole keeps the first whole number after the wording.
func (l *line) whole(name string) {
	if n, _, ok := wholeNumber(l.after); ok {
		l.set(name, n)
	}
}

// size keeps the first number after the wording, of GiB.
func (l *line) size(name string) {
	if text, _, ok := numeral(l.after); ok {
		if s, ok := gibibytes(text); ok {
			l.set(name, s)
		}
	}
}

// refuse keeps why the engine does not start. The first reason is the cause of later ones.
func (l *line) refuse(r Refusal) {
	o := l.start()
	if o.Refusal != nil && (o.Refusal.Kind != failed || r.Kind == failed) {
		return
	}
	o.Refusal = l.because(r)
}

// because is a reason with its text and line put in order.
func (l *line) because(r Refusal) *Refusal {
	r.Message, _, _ = strings.Cut(r.Message, " [type=") // pydantic's appendix
	if len(r.Message) > 2*maxText {
		r.Message = strings.ToValidUTF8(r.Message[:2*maxText], "")
	}
	r.Message, r.Line = strings.TrimSpace(r.Message), l.number
	return &r
}
