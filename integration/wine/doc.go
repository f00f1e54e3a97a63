// Package wine runs the Windows builds of this module on Linux, by Debian's wine64. It makes a Wine prefix (the
// directory that holds a Windows installation) that Go programs can run in, and starts programs in it; winerun does the
// same for go test -exec. It does not know what the programs are.
//
// Wine 8.0 differs from Windows in four points that Go programs depend on, each with its file here:
//
//   - bcryptprimitives.dll is missing, and the Go runtime does not start without its ProcessPrng: forwarder.go
//   - SIO_UDP_NETRESET is refused, and so the net package fails every UDP socket; a status code of the file system
//     differs, and so os.RemoveAll fails: patch.go
//   - a UDP socket bound to one address of an interface receives what is sent to its other addresses: exact_linux.go
//   - the first program in a prefix starts services that keep its standard output open: warm, in command_linux.go
package wine
