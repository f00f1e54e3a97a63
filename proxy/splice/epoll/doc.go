// Package epoll is the engine of proxy/splice on Linux: a few event loops, each with an epoll set that it alone waits
// on. It owns sockets, buffers and pipes, and does what the core decides. It does not know what a connection's end
// means, nor anything of Services.
package epoll
