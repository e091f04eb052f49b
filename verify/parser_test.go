package verify

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"headcount/internal/shared"
)

func TestDump(t *testing.T) {
	dir := filepath.Join(shared.Dir(t), "logs-live")
	files, _ := filepath.Glob(dir + "/*.log")
	more, _ := filepath.Glob(dir + "/trimmed/*.log")
	for _, f := range append(files, more...) {
		r, _ := os.Open(f)
		p, err := Read(r, filepath.Base(f))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("==", f, p.Lines(), p.Skipped(), len(p.Starts()))
		for _, o := range p.Starts() {
			fmt.Println(o.Engine, o.Version, o.Started)
			for _, x := range o.Facts {
				fmt.Printf("  %d %s[%s]=%v;", x.Line, x.Name, x.Rank, x.Value)
			}
			fmt.Println()
			if o.Refusal != nil {
				fmt.Printf("  REFUSED %+v\n", *o.Refusal)
			}
		}
	}
}
