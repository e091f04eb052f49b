package linear_test

import (
	"fmt"
	"log"

	"headcount/dtype"
	"headcount/linear"
)

func ExampleMultiplier_Mul() {
	w := linear.Matrix{Rows: 2, Cols: 3, Data: make([]byte, 2*2*3)}
	dtype.BFloat16.Encode(w.Data, []float32{
		1, 2, 3,
		4, 5, 6,
	})
	m := linear.New(0)
	defer m.Close()
	y := make([]float32, w.Rows)
	if err := m.Mul(y, w, []float32{1, 0.5, -1}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(y)
	// Output: [-1 0.5]
}
