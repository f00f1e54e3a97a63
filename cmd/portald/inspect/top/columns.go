package top

import (
	"strconv"

	"github.com/portald/portald/cmd/portald/inspect"
)

// The rates of Services and connections, by their place in row.rates.
const (
	rateUp = iota
	rateDown
	rateNew
	rateFailed
)

func badIf(wrong bool) meaning {
	if wrong {
		return bad
	}
	return plain
}

// number is a column of a count.
func number[T any](name string, of func(*T) int) column[T] {
	return column[T]{
		name:  name,
		text:  func(r *row[T]) string { return strconv.Itoa(of(&r.now)) },
		value: func(r *row[T]) float64 { return float64(of(&r.now)) },
	}
}

// numberIfAny is a column of a count that may not be known.
func numberIfAny[T any, N int | uint64](name string, of func(*T) *N) column[T] {
	return column[T]{
		name: name,
		text: func(r *row[T]) string { return inspect.Count(of(&r.now)) },
		value: func(r *row[T]) float64 {
			if n := of(&r.now); n != nil {
				return float64(*n)
			}
			return -1
		},
	}
}

// rate is a column of one of the row's rates.
func rate[T any](name string, which int, write func(float64) string) column[T] {
	return column[T]{
		name:  name,
		text:  func(r *row[T]) string { return write(r.rates[which]) },
		value: func(r *row[T]) float64 { return r.rates[which] },
	}
}

// size is a column of bytes.
func size[T any](name string, of func(*T) int64) column[T] {
	return column[T]{
		name:  name,
		text:  func(r *row[T]) string { return inspect.Size(of(&r.now)) },
		value: func(r *row[T]) float64 { return float64(of(&r.now)) },
	}
}

// millis is a column of milliseconds, which may not be known.
func millis[T any](name string, of func(*T) *float64) column[T] {
	return column[T]{
		name: name,
		text: func(r *row[T]) string { return inspect.Millis(of(&r.now)) },
		value: func(r *row[T]) float64 {
			if ms := of(&r.now); ms != nil {
				return *ms
			}
			return -1
		},
	}
}

func (c column[T]) painted(paint func(*row[T]) meaning) column[T] {
	c.paint = paint
	return c
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}
