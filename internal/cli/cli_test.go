package cli_test

import (
	"context"
	"os"
	"os/signal"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"headcount/internal/cli"
	"headcount/internal/dummy"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"headcount": func() {
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
			defer stop()
			os.Exit(cli.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
		},
	})
}

// TestScripts runs the program as a person would: commands, files and wanted output are in
// testdata/*.txtar; HEADCOUNT_UPDATE=1 rewrites the wanted part.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:           "testdata",
		UpdateScripts: os.Getenv("HEADCOUNT_UPDATE") != "",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"dummy": func(ts *testscript.TestScript, _ bool, args []string) { // CONFIG FOLDER: a checkpoint
				ts.Check(dummy.Write(ts.MkAbs(args[1]), ts.MkAbs(args[0]), "BF16", 1))
			},
		},
		Setup: func(env *testscript.Env) error {
			// No model from the machine's own hub cache, no colour, no terminal.
			env.Setenv("HF_HOME", env.WorkDir+"/hf")
			env.Setenv("NO_COLOR", "1")
			return nil
		},
	})
}
