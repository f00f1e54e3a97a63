// Echo prints its arguments.
package main

import (
	"fmt"
	"os"
)

func main() { fmt.Print(os.Args[1:]) }
