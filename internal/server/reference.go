package server

import (
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"headcount"
)

// elsewhere are the schemas whose fields docs/reference/json.md describes.
var elsewhere = map[string]string{"Request": "json.md#request", "Report": "json.md#report"}

// Reference is the API in Markdown, from the document that /openapi.json shows.
func Reference() []byte {
	doc := register(http.NewServeMux(), &Options{Planner: &headcount.Planner{}, Log: slog.New(slog.DiscardHandler)}, newMetrics()).OpenAPI()
	var b strings.Builder
	b.WriteString(`# The HTTP API

` + "Written by `go run ./tools/docs` from what `headcount serve` shows at `/openapi.json`. Beside these: `/healthz` says `ok`," + `
` + "`/metrics` is Prometheus' text, every other path is the page." + `

An error is a problem as RFC 9457 has it: 400 for what is not JSON, 413 beyond the cap, 422 for input that is of no use,
` + "with `field` and `hint`; 500 says nothing. A layout that the engine refuses is an answer: 200, with `error` in the report." + `
`)
	var shown []string
	for _, path := range paths(doc) {
		op, method := operationOf(doc.Paths[path])
		fmt.Fprintf(&b, "\n## %s %s\n\n%s.%s\n\n", method, path, op.Summary, prefixed(" ", op.Description))
		if op.RequestBody != nil {
			fmt.Fprintf(&b, "- takes %s\n", contents(op.RequestBody.Content, &shown))
		}
		fmt.Fprintf(&b, "- answers %s\n", contents(op.Responses["200"].Content, &shown))
	}
	shown = append(shown, "Problem")
	b.WriteString("\n## Objects\n\nA type with `?` may be null, or left out of a request.\n")
	for i := 0; i < len(shown); i++ { // objects name more objects
		if elsewhere[shown[i]] == "" {
			schemaTable(&b, shown[i], doc.Components.Schemas.Map()[shown[i]], &shown)
		}
	}
	return []byte(b.String())
}

// prefixed is text after a prefix, or nothing.
func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// paths are the operations' paths, those that take a request first.
func paths(doc *huma.OpenAPI) []string {
	var out []string
	for path := range doc.Paths {
		out = append(out, path)
	}
	slices.SortFunc(out, func(a, b string) int {
		_, x := operationOf(doc.Paths[a])
		_, y := operationOf(doc.Paths[b])
		if x != y {
			return strings.Compare(y, x) // POST, then GET
		}
		return strings.Compare(a, b)
	})
	return out
}

func operationOf(item *huma.PathItem) (*huma.Operation, string) {
	if item.Post != nil {
		return item.Post, http.MethodPost
	}
	return item.Get, http.MethodGet
}

// contents names what a body may be.
func contents(content map[string]*huma.MediaType, shown *[]string) string {
	var out []string
	for kind, media := range content {
		out = append(out, fmt.Sprintf("`%s`: %s", kind, typeName(media.Schema, shown)))
	}
	slices.Sort(out)
	return strings.Join(out, ", or ")
}

func schemaTable(b *strings.Builder, name string, s *huma.Schema, shown *[]string) {
	fmt.Fprintf(b, "\n### %s\n\n| field | type | |\n|---|---|---|\n", name)
	for _, field := range fieldsOf(s) {
		p := s.Properties[field]
		optional := ""
		if p.Nullable || !slices.Contains(s.Required, field) {
			optional = "?"
		}
		fmt.Fprintf(b, "| `%s` | %s%s | %s |\n", field, typeName(p, shown), optional, p.Description)
	}
}

// fieldsOf are a schema's fields by name.
func fieldsOf(s *huma.Schema) []string {
	var names []string
	for name := range s.Properties {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// typeName is a schema in a word, with a link to the object that it is.
func typeName(s *huma.Schema, shown *[]string) string {
	switch {
	case s.Ref != "":
		name := s.Ref[strings.LastIndex(s.Ref, "/")+1:]
		if at := elsewhere[name]; at != "" {
			return fmt.Sprintf("[%s](%s)", name, at)
		}
		if !slices.Contains(*shown, name) {
			*shown = append(*shown, name)
		}
		return fmt.Sprintf("[%s](#%s)", name, strings.ToLower(name))
	case s.Type == huma.TypeArray:
		return "list of " + typeName(s.Items, shown)
	case s.Type == huma.TypeInteger:
		return "whole number"
	case s.Type == huma.TypeObject:
		return "object"
	case s.Type == "":
		return "anything"
	}
	return s.Type
}
