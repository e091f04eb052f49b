package difftest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"headcount/internal/shared"
)

// An Oracle is an engine's own process, which answers one question after the other. It
// stands for one kind of GPU.
type Oracle struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

// Start runs the engine's driver with python, and the oracles in dir. It returns when the
// engine is loaded, after a minute or more.
func Start(python, dir, engine, gpu string) (*Oracle, error) {
	driver := filepath.Join(shared.Root(), "tools", "difftest", "driver.py")
	oracles, err := filepath.Abs(filepath.Join(dir, "oracle"))
	if err != nil {
		return nil, err
	}
	o := &Oracle{cmd: exec.Command(python, driver, engine, oracles, gpu)}
	o.cmd.Dir = os.TempDir()
	if o.in, err = o.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := o.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := o.cmd.Start(); err != nil {
		return nil, err
	}
	o.out = bufio.NewScanner(out)
	o.out.Buffer(make([]byte, 1<<20), 64<<20)
	if !o.out.Scan() {
		return nil, errors.Join(fmt.Errorf("%s: the %s oracle did not start", python, engine), o.cmd.Wait())
	}
	return o, nil
}

// Ask gives the engine's answer to a draw: a row as the oracle writes it, with the draw's
// own fields.
func (o *Oracle) Ask(d *Draw) (row []byte, err error) {
	job, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	if _, err := o.in.Write(append(job, '\n')); err != nil {
		return nil, err
	}
	if !o.out.Scan() {
		return nil, errors.Join(fmt.Errorf("%s: the oracle went away", d.ID), o.out.Err())
	}
	return o.out.Bytes(), nil
}

// Stop ends the process.
func (o *Oracle) Stop() error {
	o.in.Close()
	return o.cmd.Wait()
}
