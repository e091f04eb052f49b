package verify

import "strings"

// settings say what to make of each of a program's arguments, by the name that it prints.
type settings map[string]func(l *line, name, value string)

// settings keeps what follows the wording.
func (l *line) settings(known settings) {
	for name, value := range pairs(l.after) {
		if keep, ok := known[name]; ok {
			keep(l, name, value)
		}
	}
}

// plain keeps a value under its own name.
func plain(l *line, name, value string) {
	if v := scalar(value); v != nil {
		l.option(name, v)
	}
}

// as keeps a value under another name.
func as(other string) func(l *line, name, value string) {
	return func(l *line, _, value string) { plain(l, other, value) }
}

// text keeps a value that is a string, whatever it looks like.
func text(other string) func(l *line, name, value string) {
	return func(l *line, _, value string) {
		if s := strings.Trim(value, "'\""); s != "" && s != "None" {
			l.option(other, s)
		}
	}
}

// dtypeName keeps a dtype without PyTorch's prefix.
func dtypeName(l *line, name, value string) {
	if s, ok := scalar(value).(string); ok {
		l.option(name, strings.TrimPrefix(s, "torch."))
	}
}

// dict keeps a dict as JSON.
func dict(l *line, name, value string) {
	if data := object(value); len(data) > 2 && len(data) <= maxLine {
		l.option(name, data)
	}
}
