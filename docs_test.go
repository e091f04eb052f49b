package headcount_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/diff"

	"headcount"
	"headcount/engine"
	"headcount/internal/cli"
	"headcount/internal/dummy"
	"headcount/internal/shared"
	"headcount/layout"
	"headcount/verify"
)

// TestDocsConsole runs what the documentation shows. In a block of console, each line that
// begins with "$ " is a command and the lines below it are what it prints:
//
//	$ headcount …    run in process, also after "$ go run ./cmd/headcount"; may end in
//	                 "< FILE", "| grep WORD", "| head -N" and "| tail -N"
//	$ cat FILE       makes the file, for the commands below it
//	$ go run ./tools/dummy CONFIG FOLDER    makes a checkpoint, for the same
//	$ echo $?        the status of the last command
//
// Other commands are not run, and are those of [notRun]. HEADCOUNT_UPDATE=1 writes what is
// printed into the documents.
func TestDocsConsole(t *testing.T) {
	t.Setenv("HF_HOME", t.TempDir()) // no model from the machine's own cache
	t.Setenv("NO_COLOR", "1")
	for _, file := range documents(t) {
		t.Run(file, func(t *testing.T) {
			path := filepath.Join(shared.Root(), file)
			old := read(t, path)
			t.Chdir(t.TempDir())
			if err := os.Symlink(filepath.Join(shared.Root(), "verify"), "verify"); err != nil { // its logs, as from the repository's root
				t.Fatal(err)
			}
			compare(t, path, old, replay(t, old))
		})
	}
}

// notRun are commands that documents show and no test runs, by how they begin. The second
// of the README is run by .ci/run.
var notRun = []string{"go test ", "go build ", "go install ", "go tool ", "go mod ", "go run ./tools/", "git ", "cd ", ".ci/run", "HEADCOUNT_", "HF_HUB_OFFLINE=1 ", "headcount bench", "headcount completion ", "headcount serve", "curl ", "headcount man "}

// documents are the Markdown files that people write.
func documents(t *testing.T) []string {
	t.Helper()
	files := []string{"README.md", "CHANGELOG.md", "CONTRIBUTING.md"}
	root := os.DirFS(shared.Root())
	err := fs.WalkDir(root, "docs", func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".md") && !strings.HasPrefix(path, "docs/reference/commands/") {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// compare wants a document as it is to be, or writes it so.
func compare(t *testing.T, path, have, want string) {
	t.Helper()
	if have == want {
		return
	}
	if os.Getenv("HEADCOUNT_UPDATE") != "" {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("HEADCOUNT_UPDATE=1 go test -run TestDocs . rewrites it\n%s",
		diff.Diff(filepath.Base(path), []byte(have), "as it is now", []byte(want)))
}

// replay is a document with the output of every command as it is now.
func replay(t *testing.T, text string) string {
	var out, printed strings.Builder
	var s shell
	inConsole := false
	command := "" // whose output the next lines are
	settle := func() {
		out.WriteString(s.run(t, command, printed.String()))
		command = ""
		printed.Reset()
	}
	for line := range strings.Lines(text) {
		next, isCommand := strings.CutPrefix(strings.TrimRight(line, "\n"), "$ ")
		switch {
		case !inConsole:
			inConsole = line == "```console\n"
		case line == "```\n":
			settle()
			inConsole = false
		case isCommand:
			settle()
			command = next
		default:
			printed.WriteString(line)
			continue
		}
		out.WriteString(line)
	}
	return out.String()
}

// A shell runs the commands of one document in the working directory.
type shell struct{ status int }

// word is one of a command, which single quotes hold together.
var word = regexp.MustCompile(`'[^']*'|\S+`)

// run returns what command prints; shown is what the document shows.
func (s *shell) run(t *testing.T, command, shown string) string {
	args := word.FindAllString(strings.Replace(command, "go run ./cmd/headcount", "headcount", 1), -1)
	makes := strings.HasPrefix(command, "go run ./tools/dummy ")
	if len(args) == 0 || !makes && slices.ContainsFunc(notRun, func(start string) bool { return strings.HasPrefix(command, start) }) {
		return shown
	}
	switch {
	case args[0] == "cat" && len(args) == 2 && filepath.IsLocal(args[1]):
		if err := os.WriteFile(args[1], []byte(shown), 0o644); err != nil {
			t.Fatal(err)
		}
		return shown
	case makes && len(args) == 5 && filepath.IsLocal(args[4]):
		if err := dummy.Write(args[4], args[3], "BF16", 1); err != nil {
			t.Fatal(err)
		}
		return shown
	case command == "echo $?":
		return strconv.Itoa(s.status) + "\n"
	case args[0] == "headcount":
		return s.headcount(t, args[1:])
	}
	t.Errorf("$ %s: not a command that this test runs", command)
	return shown
}

// headcount runs the program, and what follows it in the line.
func (s *shell) headcount(t *testing.T, args []string) string {
	var stdin, stdout, stderr bytes.Buffer
	line, filters := split(args, "|")
	line, from := split(line, "<")
	for _, name := range from {
		stdin.WriteString(read(t, name[0]))
	}
	terminal := &stdout // where both go
	if len(filters) > 0 {
		terminal = &stderr // a pipe takes standard output alone
	}
	s.status = cli.Run(context.Background(), line, &stdin, &stdout, terminal)
	text := blanks.ReplaceAllString(stdout.String(), "")
	for _, f := range filters {
		text = filter(t, f, text)
	}
	return blanks.ReplaceAllString(stderr.String(), "") + text
}

// blanks at the ends of lines are for a terminal; documents have none.
var blanks = regexp.MustCompile(`(?m) +$`)

// split cuts args at each sep.
func split(args []string, sep string) (first []string, rest [][]string) {
	for i := slices.Index(args, sep); i >= 0; i = slices.Index(args, sep) {
		rest = append(rest, args[i+1:])
		args = args[:i]
	}
	return args, rest
}

// filter is "grep PATTERN", with -o or -E before it, "head -N" or "tail -N".
func filter(t *testing.T, args []string, text string) string {
	lines := slices.Collect(strings.Lines(text))
	n := 0
	if len(args) == 2 {
		n, _ = strconv.Atoi(strings.TrimPrefix(args[1], "-"))
		n = min(n, len(lines))
	}
	switch {
	case len(args) == 2 && args[0] == "head":
		return strings.Join(lines[:n], "")
	case len(args) == 2 && args[0] == "tail":
		return strings.Join(lines[len(lines)-n:], "")
	case len(args) < 2 || args[0] != "grep":
		t.Fatalf("| %s: not a filter that this test runs", strings.Join(args, " "))
	}
	pattern := regexp.MustCompile(strings.Trim(args[len(args)-1], `'`))
	var kept strings.Builder
	for _, line := range lines {
		found := pattern.FindString(strings.TrimRight(line, "\n"))
		switch {
		case found == "":
		case args[1] == "-o":
			kept.WriteString(found + "\n")
		default:
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// TestDocsGo wants the Go that documents show to stand, word for word, in the repository's
// own files, where it is compiled and tested.
func TestDocsGo(t *testing.T) {
	var source strings.Builder
	for _, dir := range []string{".", "model"} {
		files, err := filepath.Glob(filepath.Join(shared.Root(), dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			source.WriteString(dedented(read(t, file)))
		}
	}
	block := regexp.MustCompile("(?ms)^```go\n(.*?)^```$")
	for _, file := range documents(t) {
		for _, found := range block.FindAllStringSubmatch(read(t, filepath.Join(shared.Root(), file)), -1) {
			if !strings.Contains(source.String(), dedented(found[1])) {
				t.Errorf("%s: no such Go in the repository:\n%s", file, found[1])
			}
		}
	}
}

// dedented is text without what lines begin with: an example's body is shown without its
// function's indentation.
func dedented(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimLeft(line, "\t"))
	}
	return b.String()
}

// TestDocsLinks wants the files that documents link to.
func TestDocsLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]+)\)`)
	for _, file := range documents(t) {
		path := filepath.Join(shared.Root(), file)
		for _, found := range link.FindAllStringSubmatch(read(t, path), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), found[1])); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
}

// TestDocsImports holds docs/architecture.md to what go list says: each package is named, and
// the list of imports is theirs.
func TestDocsImports(t *testing.T) {
	var table strings.Builder
	list := goList(t, "-f", `{{.ImportPath}}:{{join .Imports ","}}`, "./...")
	for _, line := range list {
		pkg, imports, _ := strings.Cut(line, ":")
		var ours []string
		for path := range strings.SplitSeq(imports, ",") {
			if path == "headcount" || strings.HasPrefix(path, "headcount/") {
				ours = append(ours, short(path))
			}
		}
		row := fmt.Sprintf("%-22s %s", short(pkg), strings.Join(ours, " "))
		table.WriteString(strings.TrimRight(row, " ") + "\n")
	}
	path := filepath.Join(shared.Root(), "docs", "architecture.md")
	have := read(t, path)
	for _, line := range list {
		pkg, _, _ := strings.Cut(line, ":")
		if !strings.Contains(have, "`"+short(pkg)+"`") && !program(pkg) {
			t.Errorf("docs/architecture.md does not name %s", short(pkg))
		}
	}
	block := regexp.MustCompile("(?ms)^```imports\n.*?^```$")
	compare(t, path, have, block.ReplaceAllLiteralString(have, "```imports\n"+table.String()+"```"))
}

// short is a package's path inside the module.
func short(path string) string { return strings.TrimPrefix(path, "headcount/") }

// TestDocsJSON wants each field of a Request and of a Report in docs/reference/json.md, and
// no other. The table of flags there is made from the types.
func TestDocsJSON(t *testing.T) {
	path := filepath.Join(shared.Root(), "docs", "reference", "json.md")
	page := read(t, path)
	flags := regexp.MustCompile(`(?s)<!-- flags -->.*<!-- end -->`)
	compare(t, path, page, flags.ReplaceAllLiteralString(page, "<!-- flags -->\n"+flagTable()+"<!-- end -->"))

	fields, documented := map[string]bool{}, map[string]bool{}
	collect(reflect.TypeFor[headcount.Request](), fields)
	collect(reflect.TypeFor[headcount.Report](), fields)
	row := regexp.MustCompile("(?m)^\\| ((?:`[a-z_0-9]+`(?:, )?)+) \\|")
	for _, found := range row.FindAllStringSubmatch(page, -1) {
		for name := range strings.SplitSeq(found[1], ", ") {
			documented[strings.Trim(name, "`")] = true
		}
	}
	for name := range fields {
		if !documented[name] {
			t.Errorf("docs/reference/json.md does not name %s", name)
		}
	}
	for name := range documented {
		if !fields[name] {
			t.Errorf("docs/reference/json.md names %s, which is no field", name)
		}
	}
}

// TestDocsVerify wants each field of verify's JSON in docs/reference/verify.md.
func TestDocsVerify(t *testing.T) {
	page := read(t, filepath.Join(shared.Root(), "docs", "reference", "verify.md"))
	fields := map[string]bool{}
	collect(reflect.TypeFor[verify.Report](), fields)
	collect(reflect.TypeFor[verify.Load](), fields)
	for name := range fields {
		if !strings.Contains(page, "`"+name+"`") {
			t.Errorf("docs/reference/verify.md does not name %s", name)
		}
	}
}

// flagTable is a row for each engine flag of a Request.
func flagTable() string {
	var b strings.Builder
	b.WriteString("| field | type | value |\n|---|---|---|\n")
	for _, typ := range []reflect.Type{reflect.TypeFor[layout.Layout](), reflect.TypeFor[engine.Options]()} {
		for i := range typ.NumField() {
			name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			help, _, _ := strings.Cut(typ.Field(i).Tag.Get("help"), "; a list is a sweep")
			if help != "" {
				fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, jsonType(typ.Field(i).Type), help)
			}
		}
	}
	return b.String()
}

// jsonType is a Go type as JSON has it.
func jsonType(typ reflect.Type) string {
	switch typ.Kind() {
	case reflect.Pointer:
		return jsonType(typ.Elem())
	case reflect.Slice:
		return "list of " + jsonType(typ.Elem()) + "s"
	case reflect.Int, reflect.Int64:
		return "whole number"
	case reflect.Float64:
		return "number"
	case reflect.Bool:
		return "true or false"
	}
	return "string"
}

// collect adds the JSON names of a type's fields, and of theirs that are ours.
func collect(typ reflect.Type, names map[string]bool) {
	for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
		typ = typ.Elem()
	}
	if typ.Kind() != reflect.Struct || !strings.HasPrefix(typ.PkgPath(), "headcount") {
		return
	}
	for i := range typ.NumField() {
		f := typ.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || name == "" && !f.Anonymous:
			continue
		case name != "":
			names[name] = true
		}
		collect(f.Type, names)
	}
}

// TestDocsNotes wants each note that a report may carry, and each code of an error, in
// docs/reference/notes.md.
func TestDocsNotes(t *testing.T) {
	page := read(t, filepath.Join(shared.Root(), "docs", "reference", "notes.md"))
	note := regexp.MustCompile(`\bnote\("([a-z_-]+)"`)
	code := regexp.MustCompile(`Code = "([a-z_]+)"`)
	seen := map[string]bool{}
	for _, dir := range []string{".", "engine/vllm", "engine/sglang", "problem"} {
		files, err := filepath.Glob(filepath.Join(shared.Root(), filepath.FromSlash(dir), "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text := read(t, file)
			for _, found := range slices.Concat(note.FindAllStringSubmatch(text, -1), code.FindAllStringSubmatch(text, -1)) {
				seen[found[1]] = true
			}
		}
	}
	for id := range seen {
		if !strings.Contains(page, "`"+id+"`") {
			t.Errorf("docs/reference/notes.md does not name %s", id)
		}
	}
}
