package verify

import (
	"encoding/json"
	"iter"
	"math"
	"strconv"
	"strings"
)

// pairs are the names and values of what Python prints of a dict, of a call or of a list of
// settings, at its outermost level:
//
//	{'model': 'a/b', 'sizes': [1, 2]}
//	model='a/b', config=Config(a=1, b={}), dtype=torch.bfloat16
//
// Values are as printed. It ends where the outermost bracket closes.
func pairs(text string) iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		text = strings.TrimLeft(text, " ")
		if text != "" && (text[0] == '{' || text[0] == '(') {
			text = text[1:]
		}
		for text != "" {
			item, rest := untilComma(text)
			text = rest
			name, value, ok := strings.Cut(item, ":")
			if at := strings.IndexByte(item, '='); at >= 0 && !strings.ContainsAny(item[:at], "'\":") {
				name, value, ok = item[:at], item[at+1:], true
			}
			if ok && !yield(strings.Trim(name, " '\""), strings.TrimSpace(value)) {
				return
			}
		}
	}
}

// untilComma cuts text at its first comma outside of brackets and quotes. Of text whose
// outermost bracket closes before, nothing is left.
func untilComma(text string) (item, rest string) {
	depth := 0
	var quote byte
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quote != 0:
			if c == '\\' {
				i++
			} else if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case c == '(' || c == '[' || c == '{' || c == '<':
			depth++
		case c == ')' || c == ']' || c == '}' || c == '>':
			if depth--; depth < 0 {
				return text[:i], ""
			}
		case c == ',' && depth == 0:
			return text[:i], text[i+1:]
		}
	}
	return text, ""
}

// scalar is a printed value as a Go one: nil for None and for what is no single value.
func scalar(text string) any {
	switch text {
	case "", "None":
		return nil
	case "True", "true":
		return true
	case "False", "false":
		return false
	}
	if n := len(text); n > 1 && (text[0] == '\'' || text[0] == '"') && text[n-1] == text[0] {
		return text[1 : n-1]
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	if x, err := strconv.ParseFloat(text, 64); err == nil && !math.IsInf(x, 0) && !math.IsNaN(x) {
		return x
	}
	if strings.ContainsAny(text, "([{<'\"") {
		return nil
	}
	return text
}

// object is a printed dict as JSON, for values that are single ones or dicts; nil when it
// holds anything else.
func object(text string) json.RawMessage {
	if !strings.HasPrefix(text, "{") {
		return nil
	}
	fields := map[string]any{}
	for name, value := range pairs(text) {
		if inner := object(value); inner != nil {
			fields[name] = inner
		} else {
			fields[name] = scalar(value)
		}
	}
	data, err := json.Marshal(fields)
	if err != nil {
		return nil
	}
	return data
}

// numeral is the first number in text, without its commas, and what follows it.
func numeral(text string) (digits, rest string, ok bool) {
	from := strings.IndexFunc(text, func(r rune) bool { return r >= '0' && r <= '9' })
	if from < 0 {
		return "", "", false
	}
	if from > 0 && text[from-1] == '-' {
		from--
	}
	to := from + 1
	for to < len(text) {
		c := text[to]
		grouped := (c == ',' || c == '.') && to+1 < len(text) && text[to+1] >= '0' && text[to+1] <= '9'
		if !(c >= '0' && c <= '9') && !grouped {
			break
		}
		to++
	}
	return strings.ReplaceAll(text[from:to], ",", ""), text[to:], true
}

// mostWhole bounds the numbers that are read from text: tokens, blocks, cells, layers.
const mostWhole = 1 << 42

// wholeNumber is the first number in text, if it is a whole one.
func wholeNumber(text string) (n int64, rest string, ok bool) {
	digits, rest, ok := numeral(text)
	if !ok {
		return 0, "", false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	return n, rest, err == nil && -mostWhole < n && n < mostWhole
}

// decimal is the first number in text.
func decimal(text string) (x float64, rest string, ok bool) {
	digits, rest, ok := numeral(text)
	if !ok {
		return 0, "", false
	}
	x, err := strconv.ParseFloat(digits, 64)
	return x, rest, err == nil
}

// lastWhole is the whole number with which text ends.
func lastWhole(text string) (n int64, ok bool) {
	text = strings.TrimRight(text, " ")
	from := len(text)
	for from > 0 && (text[from-1] >= '0' && text[from-1] <= '9' || text[from-1] == ',') {
		from--
	}
	n, err := strconv.ParseInt(strings.ReplaceAll(text[from:], ",", ""), 10, 64)
	return n, err == nil
}

// word is the first word of text.
func word(text string) string {
	text = strings.TrimLeft(text, " ")
	if end := strings.IndexAny(text, " ,;:|\r\n"); end >= 0 {
		text = text[:end]
	}
	return text
}
