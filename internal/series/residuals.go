package series

// Residuals are how far estimates were off, a row each.
type Residuals struct {
	Title string
	Unit  string
	Rows  []Residual
}

// A Residual is what was printed less the middle of an estimate, and the ends of its interval
// less the same.
type Residual struct {
	Label          string
	Low, Off, High float64
}
