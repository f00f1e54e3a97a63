// Package webui is a page for a browser that shows what nodes know: Services with rates and failures, the endpoints of
// one side by side, connections, how connections failed, and what changed before.
//
//	page := webui.New(nodes, 5*time.Second)
//	go page.Watch(ctx)                       // asks each node again and again
//	http.Serve(l, webui.Guard(token, page)) // for who knows the token
//
// It only looks. A node that does not answer is named, and holds nothing up.
package webui
